// Package attest signs and checks what a run ends with: an in-toto statement
// of what was recorded, and of how much, and keeps the keys.
//
// Keys are Ed25519 and live in a [Keyring], a directory of the operator. Its
// one private key signs; the public halves of former signing keys stay, so
// that old runs still verify, beside the public keys of others that the
// operator trusts. A key's id is the digest of its public half, so a file
// cannot pass for another key's by its name.
package attest
