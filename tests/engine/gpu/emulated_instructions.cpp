// The machine's instructions in plain C++, in place of instructions.cu: kernels then run on the CPU, slowly.
//
// Every thread of a program is a fiber. One runs until it waits: for its warp, where matrix units work for all 32 of it,
// or for its program. Whoever runs goes on as far as it can before others do, and copies arrive as late as they may, so
// that a kernel which forgets to wait reads what is not there yet. Shared memory begins as NaN. With a seed it is chance
// who runs, some warps hardly ever; what programs send one another arrives at once: it overwrites what is still read; and
// words of a warp that tell of themselves are written at different times.

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

typedef unsigned int u32;
typedef unsigned short u16;
typedef long long i64;

#define DEVICE inline
#define __global__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __CUDA_ARCH__ 900
using std::max;
using std::min;

struct Index {
  int x, y, z;
};
struct float2 {
  float x, y;
};
struct float4 {
  float x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }

// -------------------------------------------------------------------------------------------------------------- fibers

constexpr int LANES = 32, STACK_BYTES = 1 << 17;
constexpr int MOST_TURNS = 1000;      // of a warp that waits in a loop of its own, before others have theirs
constexpr int ROUNDS_OF_A_PACE = 400, SLOW = 256;  // how long a warp is slow, and how seldom it then runs

struct Barrier {
  int arrived = 0;
  long generation = 0;
};
struct Copy {
  u32 to;
  const char *from;
};
struct Sent {  // from a program of a cluster to another
  u32 to, counter;
  std::vector<u32> numbers;
};
struct Counter {  // of bytes, as it lies in shared memory
  short phase, is_expected;
  int bytes;
};
struct Program;
struct Fiber {
  ucontext_t context;  // to begin with; then jumps, for a change of context asks the system each time
  jmp_buf place;
  const Barrier *barrier = nullptr;  // at which it waits, while that has the generation
  long generation;
  std::unique_ptr<char[]> stack{new char[STACK_BYTES]};
  Program *program;
  Index thread;
  int lane;
  struct Warp *warp;
  const int *flag_seen = nullptr;
  int value_seen;
  bool has_begun = false, is_done = false, waits_for_program = false;  // or for bytes from another
  std::vector<std::vector<Copy>> groups{1};  // copies on their way, by the group that they were ended in
};
struct Warp {
  Barrier barrier;
  u32 said[2][LANES][6];  // what lanes tell one another, two in turn: nobody is two ahead
  Fiber fibers[LANES];
};
struct Program {
  Index block;
  std::vector<char> memory;
  Barrier barrier, some[16], barrier_of_all, *of_cluster;
  std::vector<std::unique_ptr<Warp>> warps;
  std::vector<std::unique_ptr<Program>> *cluster;
  int first_of_cluster;
  std::vector<Sent> sent;  // to it, on its way
  char *start() { return (char *)(((size_t)memory.data() + 127) / 128 * 128); }
};

static jmp_buf scheduler;
static const char *what_is_wrong;
static u32 chance;  // 0 where nothing is left to it
static int most_rounds;  // of all warps, before it is clear that they wait in vain
static Fiber *current;
static Index threadIdx, blockIdx, gridDim;
static int cluster_size;  // how many programs, which follow one another along x
static bool happens(u32 one_in);
static char *shared;

__attribute__((noinline)) static void let_others() {
  if (!_setjmp(current->place)) _longjmp(scheduler, 1);
}
__attribute__((noinline)) static void let(Fiber &fiber) {
  if (_setjmp(scheduler)) return;
  if (fiber.has_begun) _longjmp(fiber.place, 1);
  fiber.has_begun = true;
  setcontext(&fiber.context);
}

static void let_other_warps() {
  Fiber *me = current;
  me->waits_for_program = true;
  let_others();
  me->waits_for_program = false;
}

static void wait_at(Barrier &barrier, int count, bool of_program) {
  const long generation = barrier.generation;
  if (++barrier.arrived == count) {
    barrier.arrived = 0;
    ++barrier.generation;
    return;
  }
  Fiber *me = current;
  me->waits_for_program = of_program;
  me->barrier = &barrier, me->generation = generation;
  let_others();
  me->barrier = nullptr;
  me->waits_for_program = false;
}
inline void __syncthreads() { wait_at(current->program->barrier, (int)current->program->warps.size() * LANES, true); }
inline void meet_some(int barrier, int num_threads) { wait_at(current->program->some[barrier], num_threads, true); }
inline void meet() {
  const int count = (int)current->program->warps.size() * LANES * cluster_size;
  wait_at(*current->program->of_cluster, count, true);
}
inline void __syncwarp() { wait_at(current->warp->barrier, LANES, false); }

// every lane of a warp says some numbers, and sees those of all
template <int COUNT> const u32 (*told(const u32 (&mine)[COUNT]))[6] {
  Warp *warp = current->warp;
  u32(*said)[6] = warp->said[warp->barrier.generation % 2];
  std::copy(mine, mine + COUNT, said[current->lane]);
  __syncwarp();
  return said;
}
inline bool __all_sync(u32, bool is_so) {
  const auto said = told({(u32)is_so});
  bool found = true;
  for (int lane = 0; lane < LANES; ++lane) found = found && said[lane][0];
  return found;
}

// ------------------------------------------------------------------------------------------------------------- numbers

struct Half {
  u16 bits;
};
inline u32 address_of(const void *pointer) { return (u32)((const char *)pointer - shared); }
inline u32 __float_as_uint(float x) {
  u32 found;
  std::memcpy(&found, &x, 4);
  return found;
}
inline float __uint_as_float(u32 x) {
  float found;
  std::memcpy(&found, &x, 4);
  return found;
}
inline float load(const float *from) { return *from; }
inline Half load(const Half *from) { return *from; }
inline u32 bf16_of(float x) {
  const u32 bits = __float_as_uint(x);
  return std::isnan(x) ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
inline u32 both(float low, float high) { return bf16_of(high) << 16 | bf16_of(low); }
inline float quick_tanh(float x) { return std::tanh(x); }

// -------------------------------------------------------------------------------------------------------------- copies

inline void copy16(u32 to, const char *from, bool is_there) {
  current->groups.back().push_back({to, is_there ? from : nullptr});
}
inline u32 most_of(const u32 (&x)[4]) { return max(max(x[0], x[1]), max(x[2], x[3])); }

// numbers that tell of themselves; who copies one that is missing lets others run, and so does who sees it
constexpr u32 MISSING = ~0u;

inline bool lacks_a_word(const void *piece) {
  u32 words[4];
  std::memcpy(words, piece, 16);
  return most_of(words) == MISSING;
}
inline bool lacks_a_word(u32 piece) { return lacks_a_word(shared + piece); }
inline void end_group() { current->groups.emplace_back(); }
template <int REST> void await_groups() {
  auto &groups = current->groups;
  bool is_missing = false;
  while (groups.size() > REST + 1) {
    for (const Copy &each : groups.front()) {
      each.from ? std::memcpy(shared + each.to, each.from, 16) : std::memset(shared + each.to, 0, 16);
      is_missing = is_missing || lacks_a_word(each.to);
    }
    groups.erase(groups.begin());
  }
  if (is_missing) let_other_warps();
}
inline void bring_nearer(const char *) {}
inline void take_for_changed(int &) {}

// ------------------------------------------------------------------------------------------------------------- products

template <int COUNT> void load_tiles(u32 (&to)[COUNT], u32 from) {
  const auto said = told({from});
  for (int i = 0; i < COUNT; ++i)
    std::memcpy(&to[i], shared + said[i * 8 + current->lane / 4][0] + current->lane % 4 * 4, 4);
}
template <int COUNT> void load_numbers(u32 (&to)[COUNT], u32 from) { std::memcpy(to, shared + from, 4 * COUNT); }
inline u32 of_neighbour(u32 x) { return told({x})[current->lane ^ 1][0]; }

// sums of 16 rows by 8 columns; `left(row, k)` and `right(k, column)` are factors, as lanes told them. A sum that is NaN
// has the bits that a GPU gives it.
template <class Left, class Right> void add_products(float (&sum)[4], int depth, Left left, Right right) {
  for (int i = 0; i < 4; ++i) {
    for (int k = 0; k < depth; ++k)
      sum[i] += left(current->lane / 4 + i / 2 * 8, k) * right(k, current->lane % 4 * 2 + i % 2);
    if (std::isnan(sum[i])) sum[i] = __uint_as_float(0x7fffffff);
  }
}
inline void multiply_bf16(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  const auto said = told({a[0], a[1], a[2], a[3], b0, b1});
  const auto half = [](u32 pair, int k) { return __uint_as_float(k % 2 ? pair & 0xffff0000 : pair << 16); };
  add_products(
      sum, 16, [&](int row, int k) { return half(said[row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2], k); },
      [&](int k, int column) { return half(said[column * 4 + k % 8 / 2][4 + k / 8], k); });
}
inline void multiply_tf32(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  const auto said = told({a[0], a[1], a[2], a[3], b0, b1});
  const auto cut = [](u32 x) { return __uint_as_float(x & ~8191u); };
  add_products(
      sum, 8, [&](int row, int k) { return cut(said[row % 8 * 4 + k % 4][row / 8 + k / 4 * 2]); },
      [&](int k, int column) { return cut(said[column * 4 + k % 4][4 + k / 4]); });
}

// -------------------------------------------------------------------------------------------- programs for one another

constexpr u32 PROGRAM_BYTES = 1 << 20;  // addresses of one program's shared memory, in those of a cluster

inline u32 in_program(u32 address, int program) { return address + (program + 1) * PROGRAM_BYTES; }
inline Counter &counter_at(u32 counter) { return *(Counter *)(shared + counter); }
inline void turn(Counter &counter) {
  if (counter.is_expected && !counter.bytes) counter.phase ^= 1, counter.is_expected = 0;
}
inline void arrive(Program &program, const Sent &sent) {
  Counter &counter = *(Counter *)(program.start() + sent.counter);
  std::memcpy(program.start() + sent.to, sent.numbers.data(), sent.numbers.size() * 4);
  counter.bytes -= (int)sent.numbers.size() * 4;
  turn(counter);
}
template <int COUNT> void send(u32 to, const u32 (&x)[COUNT], u32 counter) {
  const Program *me = current->program;
  Program &other = *(*me->cluster)[me->first_of_cluster + to / PROGRAM_BYTES - 1];
  if (to / PROGRAM_BYTES != counter / PROGRAM_BYTES) what_is_wrong = "the counter of another program than the numbers";
  if (to % (4 * COUNT)) what_is_wrong = "numbers are sent to a place between two";
  const Sent sent{to % PROGRAM_BYTES, counter % PROGRAM_BYTES, {x, x + COUNT}};
  chance ? arrive(other, sent) : other.sent.push_back(sent);
}
inline void new_counter(u32 counter) { counter_at(counter) = {0, 0, 0}; }
inline void expect_bytes(u32 counter, int bytes) {
  if (counter_at(counter).is_expected) what_is_wrong = "bytes are expected twice in a phase";
  counter_at(counter).is_expected = 1, counter_at(counter).bytes += bytes;
  turn(counter_at(counter));
}
inline bool has_come(u32 counter, int phase) {
  for (const Sent &each : current->program->sent) arrive(*current->program, each);
  current->program->sent.clear();
  if (counter_at(counter).phase != phase) return true;
  let_other_warps();
  return false;
}

// who sees the same as the last time lets others run
inline int seen(const int *flag) {
  Fiber *me = current;
  if (flag == me->flag_seen && *(const volatile int *)flag == me->value_seen) let_other_warps();
  me->flag_seen = flag, me->value_seen = *(const volatile int *)flag;
  return me->value_seen;
}
inline int least_of_warp(int x) {
  const auto said = told({(u32)x});
  for (int lane = 0; lane < LANES; ++lane) x = min(x, (int)said[lane][0]);
  return x;
}
inline void show(int *flag, int value) { *(volatile int *)flag = value; }
inline u32 word_seen(const u32 *word) {
  const u32 found = *(const volatile u32 *)word;
  if (found == MISSING) let_other_warps();
  return found;
}
inline void show_word(u32 *word, u32 value) {
  if (chance && happens(8)) let_other_warps();
  *(volatile u32 *)word = value;
}

// ------------------------------------------------------------------------------------------------------------- running

static void (*body)();

static void run_fiber() {
  body();
  current->is_done = true;
  let_others();
}

static void add_program(std::vector<std::unique_ptr<Program>> &programs, Index block, int num_threads,
                        int shared_bytes) {
  programs.push_back(std::make_unique<Program>());
  Program *program = programs.back().get();
  program->block = block, program->cluster = &programs;
  program->first_of_cluster = (int)programs.size() - 1 - block.x % cluster_size;
  program->of_cluster = &programs[program->first_of_cluster]->barrier_of_all;
  program->memory.assign(shared_bytes + 128, (char)0xff);
  for (int warp = 0; warp < num_threads / LANES; ++warp) {
    program->warps.push_back(std::make_unique<Warp>());
    for (int lane = 0; lane < LANES; ++lane) {
      Fiber &fiber = program->warps.back()->fibers[lane];
      fiber.program = program, fiber.warp = program->warps.back().get();
      fiber.lane = lane, fiber.thread = {warp * LANES + lane, 0, 0};
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.get(), fiber.context.uc_stack.ss_size = STACK_BYTES;
      makecontext(&fiber.context, run_fiber, 0);
    }
  }
}

static bool is_held_up(const Fiber &fiber) { return fiber.barrier && fiber.barrier->generation == fiber.generation; }

// lets a warp run until it must wait for its program, or has long waited for others; whether it is done
static bool run_warp(Warp &warp) {
  for (int turn = 0; turn < (chance ? 3 : MOST_TURNS); ++turn) {
    bool is_done = true, waits = true;
    for (Fiber &fiber : warp.fibers) {
      if (fiber.is_done) continue;
      if (!is_held_up(fiber)) {
        current = &fiber, threadIdx = fiber.thread;
        blockIdx = fiber.program->block, shared = fiber.program->start();
        let(fiber);
      }
      is_done = is_done && fiber.is_done;
      // those who wait for lanes of their warp wait for what these wait for
      waits = waits && (fiber.is_done || fiber.waits_for_program || is_held_up(fiber));
    }
    if (is_done || waits) return is_done;
  }
  return false;
}

static bool happens(u32 one_in) {
  chance = chance * 1664525u + 1013904223u | 1u << 31;
  return (chance >> 15 & 0xffff) % one_in == 0;  // low bits repeat soon
}

static void run_programs(std::vector<std::unique_ptr<Program>> &programs) {
  std::vector<Warp *> warps;
  for (auto &program : programs)
    for (auto &warp : program->warps) warps.push_back(warp.get());
  std::vector<bool> is_slow(warps.size()), has_ended(warps.size());
  for (int round = 0; round < most_rounds && !what_is_wrong; ++round) {
    if (chance && round % ROUNDS_OF_A_PACE == 0)
      for (auto slow : is_slow) slow = happens(2);
    bool is_done = true;
    for (size_t i = 0; i < warps.size(); ++i) {
      if (!has_ended[i] && (!is_slow[i] || happens(SLOW))) has_ended[i] = run_warp(*warps[i]);
      is_done = has_ended[i] && is_done;
    }
    if (is_done) return;
  }
  if (!what_is_wrong) what_is_wrong = "threads wait in vain";
}
