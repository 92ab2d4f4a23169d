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
    part, power = _exp_parts(code, build.fneg(x))
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
    """e^r - 1 and 2^k, whose product with 1 added to the first is e^x."""
    build, kind = code.build, code.kind
    x = clamp(code, x, _LARGEST[kind.dtype])
    rounded = code.intrinsic(f"llvm.rint.{kind.suffix}", kind.vector, [kind.vector])
    k = build.call(rounded, [build.fmul(x, code.number(1 / math.log(2)))])
    high, low = (code.number(part) for part in _LN2[kind.dtype])
    minus_k = build.fneg(k)
    r = code.fused(minus_k, low, code.fused(minus_k, high, x))
    series = code.number(1 / math.factorial(_TERMS[kind.dtype]))
    for power in range(_TERMS[kind.dtype] - 1, 0, -1):
        series = code.fused(series, r, code.number(1 / math.factorial(power)))
    bits, one = _MANTISSA[kind.dtype]
    # of NaN an integer is anything at all, and NaN in the series makes the product NaN whatever it is
    convert = code.intrinsic(
        f"llvm.fptosi.sat.v{kind.lanes}i{8 * kind.bytes}.{kind.suffix}", kind.integers, [kind.vector]
    )
    exponent = build.add(build.call(convert, [k]), code.integer(one))
    two_to_k = build.bitcast(build.shl(exponent, code.integer(bits)), kind.vector)
    return build.fmul(series, r), two_to_k
