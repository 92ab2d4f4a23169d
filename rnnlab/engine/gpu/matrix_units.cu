// What all kernels in CUDA C++ share: numbers as they lie in memory, products of the matrix units, formulas' functions.

constexpr int STEP = 32;  // bytes of a row that are multiplied at a time

template <int N> struct Number {
  static constexpr int value = N;
};

DEVICE float number(float x) { return x; }
DEVICE float number(Half x) { return __uint_as_float((u32)x.bits << 16); }
DEVICE void store(float *to, float x) { *to = x; }
DEVICE void store(Half *to, float x) { to->bits = (u16)both(x, 0.0f); }

// columns of a matrix to stay, `bytes` deep each, one after another in `from`, `stride` bytes apart
DEVICE void keep_columns(u32 to, int kept_stride, const char *from, i64 stride, int count, int bytes) {
  const int pieces = bytes / 16;
  for (int i = threadIdx.x; i < count * pieces; i += THREADS)
    copy16(to + i / pieces * kept_stride + i % pieces * 16, from + i / pieces * stride + i % pieces * 16, true);
}

// ------------------------------------------------------------------------------------------------------------- products

// not NaN, which a carry would make zero, nor what would become infinite
DEVICE bool can_round(u32 x) { return fabsf(__uint_as_float(x)) < 0x1.ffep127f; }
DEVICE u32 rounded(u32 x) { return can_round(x) ? x + 4096 : x; }  // to tf32: matrix units do not read the last 13 bits

struct Parts {  // of a float32 number, each of tf32
  u32 high, low;
};
// what is NaN shows in the low part
DEVICE Parts parts(u32 x) {
  const u32 high = (x + 4096) & ~8191u;
  return {high, __float_as_uint(__uint_as_float(x) - __uint_as_float(high))};
}
// what is infinite is all in the low part too: of infinity less infinity there would be nothing left
DEVICE Parts careful_parts(u32 x) {
  const float high = can_round(x) ? __uint_as_float((x + 4096) & ~8191u) : 0.0f;
  return {__float_as_uint(high), __float_as_uint(__uint_as_float(x) - high)};
}

DEVICE void multiply_parts(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  u32 high[4], low[4];
  for (int i = 0; i < 4; ++i) {
    const Parts each = careful_parts(a[i]);
    high[i] = each.high, low[i] = each.low;
  }
  const Parts first = parts(b0), second = parts(b1);
  multiply_tf32(sum, low, first.high, second.high);
  multiply_tf32(sum, high, first.low, second.low);
  multiply_tf32(sum, high, first.high, second.high);
}

// 16 rows by 8 columns: `sum` += a times b, over 32 bytes of depth
DEVICE void multiply(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  if constexpr (PRECISION == 16) {
    multiply_bf16(sum, a, b0, b1);
  } else if constexpr (PRECISION == 32) {
    multiply_parts(sum, a, b0, b1);
  } else {
    u32 high[4];
    for (int i = 0; i < 4; ++i) high[i] = rounded(a[i]);
    multiply_tf32(sum, high, rounded(b0), rounded(b1));
  }
}
// the same over 64 bytes
DEVICE void multiply(float (&sum)[4], const u32 (&a0)[4], const u32 (&a1)[4], const u32 (&b)[4]) {
  if constexpr (PRECISION == 32) {
    float part[4] = {};  // matrix units cut sums off where an addition rounds: long ones would drift towards zero
    multiply_parts(part, a0, b[0], b[1]);
    multiply_parts(part, a1, b[2], b[3]);
    for (int i = 0; i < 4; ++i) sum[i] += part[i];
  } else {
    multiply(sum, a0, b[0], b[1]);
    multiply(sum, a1, b[2], b[3]);
  }
}

// ------------------------------------------------------------------------------------------------------------- formulas

namespace cell {
DEVICE float tanh(float x) {
  return PRECISION == 16 ? quick_tanh(x) : tanhf(x);
}
DEVICE float sigmoid(float x) { return PRECISION == 16 ? 0.5f * tanh(0.5f * x) + 0.5f : 1.0f / (1.0f + expf(-x)); }
DEVICE float relu(float x) { return x < 0 ? 0.0f : x; }  // NaN stays
DEVICE float step(float x) { return x > 0 ? 1.0f : 0.0f; }
DEVICE float tanh_slope(float y) { return 1.0f - y * y; }
}  // namespace cell
