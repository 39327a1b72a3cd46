"""The second way to draw: torch's CPU generator, rebuilt on numpy's mt19937."""

import math

import numpy as np


def fma(a, b, c):
    """float32 a*b+c with one rounding (a*b is exact in extended precision)."""
    L = np.longdouble
    return (np.asarray(a, L) * np.asarray(b, L) + np.asarray(c, L)).astype(np.float32)


def logf_vec(x):
    """The 8-wide float32 logarithm torch uses in randn (Cephes polynomial, fused multiply-adds)."""
    f = np.float32
    coef = (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1)
    coef += (-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)
    m, e = np.frexp(x)  # x = m * 2^e, m in [0.5, 1)
    m, e = m.astype(f), e.astype(f)
    low = m < f(0.7071067811865476)
    e = np.where(low, e - f(1), e).astype(f)
    x = ((m - f(1)) + np.where(low, m, f(0))).astype(f)
    z = x * x
    y = np.full_like(x, f(coef[0]))
    for c in coef[1:]:
        y = fma(y, x, f(c))
    y = fma(y * x, z, e * f(-2.12194440e-4))
    y = fma(z, f(-0.5), y)
    return fma(e, f(0.693359375), x + y)


def sincosf_vec(x):
    """The matching sine and cosine for x >= 0 (Cephes, three-part reduction by pi/4)."""
    f = np.float32
    q = (x * f(1.27323954473516)).astype(np.int32)
    q = (q + 1) & ~1
    y = q.astype(f)
    for part in (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8):
        x = fma(y, f(part), x)
    z = x * x
    c = fma(fma(f(2.443315711809948e-5), z, f(-1.388731625493765e-3)), z, f(4.166664568298827e-2))
    c = fma(c * z, z, -(z * f(0.5))) + f(1)
    s = fma(fma(f(-1.9515295891e-4), z, f(8.3321608736e-3)), z, f(-1.6666654611e-1))
    s = fma(s * z, x, x)
    even = (q & 2) == 0
    sin, cos = np.where(even, s, c), np.where(even, c, s)
    return np.where(q & 4, -sin, sin), np.where(((q - 2) & 4) == 0, -cos, cos)


class Mt:
    """mt19937 read the way torch's CPU generator reads it (raw words from numpy's mt19937)."""

    def __init__(self, seed):
        bg = np.random.MT19937()
        bg._legacy_seeding(seed & 0xFFFFFFFF)
        self.bg = bg
        self.cached = None  # the second value of the last scalar Box-Muller pair

    def u32(self):
        return int(self.bg.random_raw())

    def u64(self):
        hi = self.u32()
        return (hi << 32) | self.u32()

    def uf(self):  # float32 uniform: 24 low bits of one word
        return np.float32(self.u32() & 0xFFFFFF) * np.float32(2.0**-24)

    def ud(self):  # float64 uniform: 53 low bits of two words (first word is the high half)
        return (self.u64() & ((1 << 53) - 1)) * 2.0**-53

    def uniform(self, n, a, b):  # float32 tensor.uniform_(a, b): one fused multiply-add
        a, b = np.float32(a), np.float32(b)
        return np.array([fma(self.uf(), b - a, a) for _ in range(n)], dtype=np.float32)

    def normal1(self):  # scalar path, always computed in double, values kept in pairs
        if self.cached is not None:
            v, self.cached = self.cached, None
            return v
        u1, u2 = self.ud(), self.ud()
        r, th = math.sqrt(-2.0 * math.log1p(-u2)), 2.0 * math.pi * u1
        self.cached = r * math.sin(th)
        return r * math.cos(th)

    @staticmethod
    def _pairs(u):  # 16 uniforms -> 16 normals, element j pairs with j + 8
        u1, u2 = 1 - u[:8], u[8:]
        if u.dtype == np.float32:
            r = np.sqrt(np.float32(-2) * logf_vec(u1))
            s, c = sincosf_vec(np.float32(2 * math.pi) * u2)
            return np.concatenate([r * c, r * s])
        r, th = np.sqrt(-2.0 * np.log(u1)), 2.0 * math.pi * u2
        return np.concatenate([r * np.cos(th), r * np.sin(th)])

    def randn(self, n, dt=np.float32, exact=False):
        """exact: the float32 uniforms, but log, sine and cosine in double."""
        draw = self.ud if dt == np.float64 else self.uf
        if n < 16:
            return np.array([self.normal1() for _ in range(n)]).astype(dt)
        wide = np.float64 if exact else dt
        u = np.array([draw() for _ in range(n)], dtype=dt).astype(wide)
        out = u.copy()
        for i in range(0, n - 15, 16):
            out[i : i + 16] = self._pairs(u[i : i + 16])
        if n % 16:  # the last 16 values are drawn anew
            out[n - 16 :] = self._pairs(np.array([draw() for _ in range(16)], dtype=dt).astype(wide))
        return out
