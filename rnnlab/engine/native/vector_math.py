"""Exponentials on vectors: sigmoid and tanh to within a few units in the last place, NaN for NaN.

e^x - 1 is 2^k (e^r - 1) + (2^k - 1) with x = k ln 2 + r and |r| at most half of ln 2, where few terms of the series
suffice. Written so, tanh keeps its relative accuracy near zero.
"""

import math

from rnnlab.engine.native.code import Function, Value

_TERMS = {"float32": 7, "float64": 13}
_LARGEST = {"float32": 88.0, "float64": 708.0}  # beyond, e^x is no longer finite
_MANTISSA = {"float32": (23, 127), "float64": (52, 1023)}  # bits, exponent of 1
_LN2 = {  # in two parts, the first of few bits: k times it is exact
    "float32": (0.693145751953125, 1.42860682030941723212e-6),
    "float64": (0.693147180369123816490, 1.90821492927058770002e-10),
}


def sigmoid(code: Function, x: Value) -> Value:
    """1 / (1 + e^-x)."""
    build, one = code.build, code.number(1.0)
    part, power = _exp_parts(code, build.fneg(clamp(code, x, _LARGEST[code.kind.dtype])))
    return build.fdiv(one, code.fused(part, power, build.fadd(power, one)))


def tanh(code: Function, x: Value) -> Value:
    """(e^2x - 1) / (e^2x + 1)."""
    build = code.build
    limit = {"float32": 10.0, "float64": 20.0}[code.kind.dtype]  # beyond, it is 1 to all digits
    part, power = _exp_parts(code, build.fmul(code.number(2.0), clamp(code, x, limit)))
    above = code.fused(part, power, build.fsub(power, code.number(1.0)))
    return build.fdiv(above, build.fadd(above, code.number(2.0)))


def clamp(code: Function, x: Value, limit: float) -> Value:
    """x, or the nearer of -limit and limit where it is outside; NaN stays."""
    build = code.build
    for sign, bound in (("<", -limit), (">", limit)):
        x = build.select(build.fcmp_ordered(sign, x, code.number(bound)), code.number(bound), x)
    return x


def _exp_parts(code: Function, x: Value) -> tuple[Value, Value]:
    """e^r - 1 and 2^k for an x that is not too large: e^x is the second times 1 + the first."""
    build, kind = code.build, code.kind
    bits, one = _MANTISSA[kind.dtype]
    # at 1.5 * 2^bits the last bit of a number is worth 1: added to it, k is rounded and in the last bits
    shift = code.number(1.5 * 2.0**bits)
    shifted = code.fused(x, code.number(1 / math.log(2)), shift)
    minus_k = build.fsub(shift, shifted)
    high, low = (code.number(part) for part in _LN2[kind.dtype])
    r = code.fused(minus_k, low, code.fused(minus_k, high, x))
    series = code.number(1 / math.factorial(_TERMS[kind.dtype]))
    for power in range(_TERMS[kind.dtype] - 1, 0, -1):
        series = code.fused(series, r, code.number(1 / math.factorial(power)))
    exponent = build.shl(build.bitcast(shifted, kind.integers), code.integer(bits))
    two_to_k = build.bitcast(build.add(exponent, code.integer(one << bits)), kind.vector)
    return build.fmul(series, r), two_to_k
