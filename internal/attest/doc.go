// Package attest signs and checks the statement that ends a run, an in-toto
// statement of what was recorded and how much, and manages the keys.
//
// Keys are Ed25519 and are stored in a [Keyring], a directory of the operator.
// Its one private key signs. The public halves of former signing keys are kept,
// so that old runs still verify, and so are other people's public keys that the
// operator trusts. A key's id is the digest of its public half: renaming a file
// cannot make it pass for another key.
package attest
