// What all kernels in CUDA C++ share: numbers as they lie in memory, products of the matrix units, formulas' functions.

typedef unsigned int u32;
typedef unsigned short u16;
typedef long long i64;

#define DEVICE __device__ __forceinline__

constexpr int STEP = 32;  // bytes of a row that are multiplied at a time

template <int N> struct Number {
  static constexpr int value = N;
};

extern __shared__ __align__(128) char shared[];

DEVICE u32 address_of(const void *pointer) { return (u32)__cvta_generic_to_shared(pointer); }

// ------------------------------------------------------------------------------------------------------------- numbers

struct Half {  // bf16
  u16 bits;
};

// loads are asked for long before they are needed; a bf16 number is widened where it is used, for that must wait
DEVICE float load(const float *from) { return __ldcg(from); }
DEVICE Half load(const Half *from) {
  Half found;
  asm volatile("ld.global.cg.u16 %0, [%1];" : "=h"(found.bits) : "l"(from));
  return found;
}
DEVICE float number(float x) { return x; }
DEVICE float number(Half x) { return __uint_as_float((u32)x.bits << 16); }
DEVICE void store(float *to, float x) { *to = x; }
DEVICE u32 both(float low, float high) {  // two bf16 numbers side by side
  u32 found;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(found) : "f"(high), "f"(low));
  return found;
}
DEVICE void store(Half *to, float x) { to->bits = (u16)both(x, 0.0f); }

// -------------------------------------------------------------------------------------------------------------- copies

DEVICE void copy16(u32 to, const char *from, bool is_there) {
  const int size = is_there ? 16 : 0;  // the rest is filled with zeros
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(size) : "memory");
}
DEVICE void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int REST> DEVICE void await_groups() { asm volatile("cp.async.wait_group %0;" ::"n"(REST) : "memory"); }


// columns of a matrix to stay, `bytes` deep each, one after another in `from`, `stride` bytes apart
DEVICE void keep_columns(u32 to, int kept_stride, const char *from, i64 stride, int count, int bytes) {
  const int pieces = bytes / 16;
  for (int i = threadIdx.x; i < count * pieces; i += THREADS)
    copy16(to + i / pieces * kept_stride + i % pieces * 16, from + i / pieces * stride + i % pieces * 16, true);
}

// ------------------------------------------------------------------------------------------------------------- products

DEVICE void load_tiles(u32 (&to)[4], u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from)
               : "memory");
}
DEVICE void load_tiles(u32 (&to)[2], u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(to[0]), "=r"(to[1])
               : "r"(from)
               : "memory");
}

DEVICE void multiply_bf16(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
DEVICE void multiply_tf32(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
DEVICE u32 rounded(u32 x) { return (x + 4096) & ~8191u; }  // to what tf32 holds
DEVICE u32 rest_of(u32 x) { return __float_as_uint(__uint_as_float(x) - __uint_as_float(rounded(x))); }

DEVICE void multiply_parts(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {  // float32 numbers as pairs of tf32
  u32 high[4], low[4];
  for (int i = 0; i < 4; ++i) high[i] = rounded(a[i]), low[i] = rest_of(a[i]);
  multiply_tf32(sum, low, rounded(b0), rounded(b1));
  multiply_tf32(sum, high, rest_of(b0), rest_of(b1));
  multiply_tf32(sum, high, rounded(b0), rounded(b1));
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
  if constexpr (PRECISION == 16) {  // one instruction, off by less than rounding to bf16
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
  return tanhf(x);
}
DEVICE float sigmoid(float x) { return PRECISION == 16 ? 0.5f * tanh(0.5f * x) + 0.5f : 1.0f / (1.0f + expf(-x)); }
DEVICE float relu(float x) { return x < 0 ? 0.0f : x; }  // NaN stays
DEVICE float step(float x) { return x > 0 ? 1.0f : 0.0f; }
DEVICE float tanh_slope(float y) { return 1.0f - y * y; }
}  // namespace cell
