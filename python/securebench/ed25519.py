"""Checks signatures: Ed25519 as RFC 8032, 5.1.7, has it. It holds no secret, so it need not take equal times."""
import functools
import hashlib

P, L = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
# The y of points of small order, for which anybody can sign, in each encoding.
SMALL = (0, 1, P - 1, P, P + 1, 0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826,
         0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd83d3d706a17c7)


def point(b):
    """Decodes a point, in extended coordinates; None is none."""
    y = (int.from_bytes(b, "little") & (1 << 255) - 1) % P
    u, v = (y * y - 1) % P, (D * y * y + 1) % P
    x = u * pow(v, 3, P) * pow(u * pow(v, 7, P), (P - 5) // 8, P) % P
    x = x if (v * x * x - u) % P == 0 else x * pow(2, (P - 1) // 4, P) % P
    x = (P - x) % P if x % 2 != b[31] >> 7 else x
    return None if (v * x * x - u) % P else (x, y, 1, x * y % P)


def add(p, q):
    """Adds two points."""
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(n, p):
    """Multiplies a point."""
    q = (0, 1, 1, 0)
    for bit in bin(n)[2:]:
        q = add(add(q, q), p) if bit == "1" else add(q, q)
    return q


@functools.lru_cache
def signed(key, message, signature):
    """Tells whether a signature is that of a public key, of 32 bytes, over a message."""
    a, s = point(key), int.from_bytes(signature[32:], "little")
    if a is None or int.from_bytes(key, "little") % 2**255 in SMALL or len(signature) != 64 or s >= L:
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % L
    base = point((4 * pow(5, -1, P) % P).to_bytes(32, "little"))
    x, y, z, _ = add(times(s, base), times(k, (P - a[0], a[1], 1, P - a[3])))
    x, y = x * pow(z, -1, P) % P, y * pow(z, -1, P) % P
    return (y | (x & 1) << 255).to_bytes(32, "little") == signature[:32]
