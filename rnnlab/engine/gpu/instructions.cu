// What is said in the machine's own instructions, for CUDA C++ has no words for it; all kernels share it.

typedef unsigned int u32;
typedef unsigned short u16;
typedef long long i64;

#define DEVICE __device__ __forceinline__

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
DEVICE u32 both(float low, float high) {  // two bf16 numbers side by side
  u32 found;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(found) : "f"(high), "f"(low));
  return found;
}
DEVICE float quick_tanh(float x) {  // one instruction, off by less than rounding to bf16
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// -------------------------------------------------------------------------------------------------------------- copies

DEVICE void copy16(u32 to, const char *from, bool is_there) {
  const int size = is_there ? 16 : 0;  // the rest is filled with zeros
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(size) : "memory");
}
DEVICE void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int REST> DEVICE void await_groups() { asm volatile("cp.async.wait_group %0;" ::"n"(REST) : "memory"); }

// a line of memory is brought to the second-level cache
DEVICE void bring_nearer(const char *from) { asm volatile("prefetch.global.L2 [%0];" ::"l"(from)); }

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

// a thread's own numbers, which lie one after another
DEVICE void load_numbers(u32 (&to)[2], u32 from) {
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(from) : "memory");
}
DEVICE void load_numbers(u32 (&to)[4], u32 from) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from)
               : "memory");
}
DEVICE u32 most_of(const u32 (&x)[4]) { return max(max(x[0], x[1]), max(x[2], x[3])); }
DEVICE u32 of_neighbour(u32 x) { return __shfl_xor_sync(~0u, x, 1); }  // what the other thread of a pair has

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

// ------------------------------------------------------------------------------------ some warps of a program wait

// for one another only; barrier 0 is that of all
DEVICE void meet_some(int barrier, int num_threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(num_threads) : "memory");
}

// ------------------------------------------------------------------------------- programs of a cluster, for one another

#if __CUDA_ARCH__ >= 900
DEVICE u32 in_program(u32 address, int program) {  // the same place in another's shared memory
  u32 found;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(found) : "r"(address), "r"(program));
  return found;
}
DEVICE void meet() {
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}

// numbers that are stored in another's memory, whose counter hears of their bytes
DEVICE void send(u32 to, const u32 (&x)[4], u32 counter) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
                   to),
               "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(counter)
               : "memory");
}

// a counter of bytes, which begins a new phase when all that one thread expected have come
DEVICE void new_counter(u32 counter) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;" ::"r"(counter) : "memory");
}
DEVICE void expect_bytes(u32 counter, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(counter), "r"(bytes) : "memory");
}
DEVICE bool has_come(u32 counter, int phase) {
  u32 found;
  asm volatile(
      "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
      : "=r"(found)
      : "r"(counter), "r"(phase)
      : "memory");
  return found;
}
#endif

// ----------------------------------------------------------------------------------------- programs for one another

DEVICE int seen(const int *flag) {
  int value;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}
DEVICE int least_of_warp(int x) { return __reduce_min_sync(~0u, x); }
DEVICE void show(int *flag, int value) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

// numbers that tell of themselves: where one is not there yet lies this word, which no number is
constexpr u32 MISSING = ~0u;

DEVICE u32 word_seen(const u32 *word) {
  u32 value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
DEVICE void show_word(u32 *word, u32 value) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
DEVICE bool lacks_a_word(u32 piece) {  // of 16 bytes that were copied to shared memory
  u32 x[4];
  load_numbers(x, piece);
  return most_of(x) == MISSING;
}

DEVICE void take_for_changed(int &x) { asm volatile("" : "+r"(x)); }  // the compiler must think that it may be
