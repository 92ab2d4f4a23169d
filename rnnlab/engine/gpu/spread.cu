// What kernels of a spread network share: telling one another, and products whose depth eight warps share.
//
// A program holds UNITS units of one node for ROWS sequences. Each of its warps has a part of the depth, for all rows or for
// half of them: it copies 64 bytes of every row at a time (a chunk), multiplies them, and leaves its sums in shared memory,
// where the threads that compute the formulas add them up.

constexpr int CHUNK = 64;  // bytes of a row that are copied at a time

// -------------------------------------------------------------------------------------------------------------- telling

// Numbers tell of themselves. Before the launch the arrays that programs read from one another are filled with a word that
// no number is (`MISSING`). A reader looks again until no such word is left. So no other word need say that numbers are
// there, and no store need arrive before the next one begins. This relies on two things alone: a word of 32 bits is
// written whole, and whoever looks again asks the second-level cache, not a copy nearby.

// a word that may be told: MISSING is a NaN, and another NaN takes its place
DEVICE u32 never_missing(u32 word) { return min(word, MISSING - 1); }

DEVICE void tell(float *to, float x, bool is_live) {
  if (is_live) show_word((u32 *)to, never_missing(__float_as_uint(x)));
}
// two threads, which have neighbouring units of a row, put their numbers into one word
DEVICE void tell(Half *to, float x, bool is_live) {
  const float other = __uint_as_float(of_neighbour(__float_as_uint(x)));
  if (is_live && threadIdx.x % 2 == 0) show_word((u32 *)to, never_missing(both(x, other)));
}

// a thread waits for its numbers that another program tells of, and asks for all that are missing at once; `place(e)` is
// that of a live one
template <int NUM, class IsLive, class Place>
DEVICE void await(float (&x)[NUM], bool is_awaited, IsLive is_live, Place place) {
  bool are_there = true;
#pragma unroll
  for (int e = 0; e < NUM; ++e) x[e] = is_live(e) ? __uint_as_float(MISSING) : 0.0f;
  do {
#pragma unroll
    for (int e = 0; e < NUM; ++e)
      if (__float_as_uint(x[e]) == MISSING) x[e] = __uint_as_float(word_seen((const u32 *)place(e)));
    are_there = true;
#pragma unroll
    for (int e = 0; e < NUM; ++e) are_there = are_there && __float_as_uint(x[e]) != MISSING;
  } while (is_awaited && !are_there);
}

// A warp waits until a word has come of each program that tells of bytes `first` to `last` of a row, of `distance` bytes
// each. Then most other words are there too: large copies that come too early hold up the stores that they wait for.
DEVICE void await_programs(const char *row, int first, int last, int distance) {
  for (int at = first + threadIdx.x % 32 * distance; at < last; at += 32 * distance)
    while (word_seen((const u32 *)(row + at)) == MISSING) {
    }
  __syncwarp();
}

// ------------------------------------------------------------------------------------------------------------- products

// A chunk lies as rows of 64 bytes, four pieces of 16 in an order that turns with the row, so that eight rows' pieces
// touch every bank once. What a lane copies of it, and what it loads, differs from row to row by a constant.
DEVICE u32 piece(int row, int number) { return row * CHUNK + ((number ^ (row >> 1)) & 3) * 16; }

// where a lane finds the first of the rows that it copies, from a row on: eight rows at a time, four lanes a row
struct Copier {
  u32 to;
  i64 from, eight_rows;
  int row, number;
  DEVICE Copier(i64 stride, int first_row) {
    const int lane = threadIdx.x % 32;
    row = lane / 4, number = lane % 4;
    to = piece(row, number);
    from = (first_row + row) * stride + number * 16;
    eight_rows = 8 * stride;
  }
};

// a warp copies a chunk of `bytes` from each of COUNT rows, of which the first `live` are there; if it IS_AGAIN, only those
// pieces in which a word is missing
template <int COUNT, bool IS_AGAIN = false>
DEVICE void copy_rows(const Copier &lane, u32 to, const char *from, int bytes, int live) {
  if (lane.number * 16 >= bytes) return;
#pragma unroll
  for (int i = 0; i < COUNT / 8; ++i) {
    const bool is_live = lane.row + i * 8 < live;
    if (IS_AGAIN && !lacks_a_word(to + lane.to + i * 8 * CHUNK)) continue;
    copy16(to + lane.to + i * 8 * CHUNK, from + (is_live ? lane.from + i * lane.eight_rows : 0), is_live);
  }
}

// columns of a matrix that lie in shared memory for the whole sequence: column by column, each as deep as the product
struct Kept {
  u32 start;
  int stride;  // bytes from column to column
  DEVICE u32 lane(int column, int number) const { return start + column * stride + number * 16; }
  DEVICE u32 step(u32 lane, int chunk, int step) const { return lane + chunk * CHUNK + step * STEP; }
};

// the same, of which only the chunk at hand is there, copied beside what it multiplies
struct Passing {
  u32 start;
  static constexpr int stride = CHUNK;
  DEVICE u32 lane(int column, int number) const { return start + piece(column, number); }
  DEVICE u32 step(u32 lane, int, int step) const { return lane ^ (step * STEP); }  // the order turns within 64 bytes
};

// sums of GROUPS, each UNITS columns wide, of one step of 32 bytes
template <int... GROUPS, int M, int N, class Right>
DEVICE void multiply_step(float (&sums)[M][N][4], const u32 (&a)[M][4], u32 right, const Right &matrix, int chunk,
                          int step) {
  int column = 0;
  auto group = [&](auto place) {
    if constexpr (UNITS == 8) {
      u32 b[2];
      load_tiles(b, matrix.step(right + column * matrix.stride, chunk, step));
#pragma unroll
      for (int m = 0; m < M; ++m) multiply(sums[m][place.value], a[m], b[0], b[1]);
    } else {
#pragma unroll
      for (int n = 0; n < UNITS / 8; n += 2) {
        u32 b[4];
        load_tiles(b, matrix.step(right + (column + n * 8) * matrix.stride, chunk, step));
#pragma unroll
        for (int m = 0; m < M; ++m) {
          multiply(sums[m][place.value * (UNITS / 8) + n], a[m], b[0], b[1]);
          multiply(sums[m][place.value * (UNITS / 8) + n + 1], a[m], b[2], b[3]);
        }
      }
    }
    column += UNITS;
  };
  (group(Number<GROUPS>()), ...);
}

// The same of a chunk, whose groups' columns follow one another in the matrix. If words are awaited, the result is the
// greatest that a lane has seen: MISSING if one is missing. With STOPS nothing is multiplied then and all lanes return
// MISSING, but they have to know before any of them goes on.
template <bool STOPS, int... GROUPS, int M, int N, class Right>
DEVICE u32 multiply_chunk(float (&sums)[M][N][4], u32 chunk_start, const Right &matrix, int chunk, int bytes,
                          bool is_awaited) {
  const int lane = threadIdx.x % 32;
  const u32 left = chunk_start + piece(lane % 16, lane / 16);
  const u32 right = matrix.lane(lane % 8 + (UNITS == 8 ? 0 : lane / 16 * 8), lane / 8 % 2);
  u32 a[2][M][4], most = 0;
  auto load = [&](int step) {
#pragma unroll
    for (int m = 0; m < M; ++m) {  // the lanes have every word once between them
      load_tiles(a[step][m], (left ^ (step * STEP)) + m * 16 * CHUNK);
      most = max(most, most_of(a[step][m]));
    }
  };
  load(0);
  if (STOPS) {
    if (bytes == CHUNK) load(1);
    if (is_awaited && !__all_sync(~0u, most != MISSING)) return MISSING;
  }
  multiply_step<GROUPS...>(sums, a[0], right, matrix, chunk, 0);
  if (bytes == CHUNK) {
    if (!STOPS || M > 2) load(1);  // a second time where rows are many: threads have no room to keep them all
    multiply_step<GROUPS...>(sums, a[1], right, matrix, chunk, 1);
  }
  return !STOPS && is_awaited ? most : 0;
}

// Chunk after chunk of a warp's part of the depth: `copy` begins to bring one, `use` multiplies it and returns MISSING if
// a word was missing. With STOPS, what is missing of all chunks on their way is then copied again, at once. Without, the
// warp goes on to the end, and the result is whether nothing was missing.
template <bool STOPS, int STAGES, class Copy, class Use>
DEVICE bool in_turn(int first, int last, u32 buffer, int stage_bytes, Copy copy, Use use) {
  auto place = [&](int chunk) { return buffer + (chunk - first) % STAGES * stage_bytes; };
  u32 most = 0;
#pragma unroll
  for (int i = 0; i < STAGES - 1; ++i) {
    if (first + i < last) copy(first + i, buffer + i * stage_bytes, Number<false>());
    end_group();
  }
  for (int chunk = first; chunk < last; ++chunk) {
    await_groups<STAGES - 2>();
    __syncwarp();
    const int ahead = chunk + STAGES - 1;
    if (ahead < last) copy(ahead, place(ahead), Number<false>());
    end_group();
    if constexpr (STOPS) {
      while (use(chunk, place(chunk)) == MISSING) {
        await_groups<0>();
#pragma unroll 1
        for (int i = chunk; i <= ahead && i < last; ++i) copy(i, place(i), Number<true>());
        end_group();
        await_groups<0>();
        __syncwarp();
      }
    } else {
      most = max(most, use(chunk, place(chunk)));
    }
  }
  return __all_sync(~0u, most != MISSING);
}

// for a part of the depth that is multiplied once more
template <int M, int N> DEVICE void begin_again(float (&sums)[M][N][4], int &first) {
#pragma unroll
  for (int i = 0; i < M * N * 4; ++i) (&sums[0][0][0])[i] = 0.0f;
  take_for_changed(first);  // else addresses computed from it would be kept, in registers that all else needs
}

// a warp's sums to its own part of shared memory, rows of WIDTH numbers
template <int WIDTH, int M, int N> DEVICE void leave(const float (&sums)[M][N][4], float *to) {
  const int lane = threadIdx.x % 32;
  __syncwarp();
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float *place = to + (m * 16 + half * 8 + lane / 4) * WIDTH + n * 8 + lane % 4 * 2;
        *(float2 *)place = make_float2(sums[m][n][half * 2], sums[m][n][half * 2 + 1]);
      }
}

// one of those sums, over all warps that had a part
template <int PARTS, int WIDTH> DEVICE float sum_of(const char *buffers, int buffer_bytes, int row, int column) {
  float total = 0;
#pragma unroll
  for (int i = 0; i < PARTS; ++i) total += ((const float *)(buffers + i * buffer_bytes))[row * WIDTH + column];
  return total;
}

// --------------------------------------------------------------------------------------------------------------- pairs

// The programs of a pair multiply half of the depth each, for the units of both. What the warps of one have left for the
// other's COLUMNS, behind its own, they add up and send there, four numbers a thread.
#if __CUDA_ARCH__ >= 900
template <int PARTS, int WIDTH, int COLUMNS>
DEVICE void send_sums(const char *buffers, int buffer_bytes, u32 to, u32 counter, int program) {
  for (int i = threadIdx.x; i < ROWS * COLUMNS / 4; i += THREADS) {
    const int place = i / (COLUMNS / 4) * WIDTH + COLUMNS + i % (COLUMNS / 4) * 4;
    float4 total = *(const float4 *)(buffers + place * 4);
#pragma unroll
    for (int part = 1; part < PARTS; ++part) {
      const float4 x = *(const float4 *)(buffers + part * buffer_bytes + place * 4);
      total.x += x.x, total.y += x.y, total.z += x.z, total.w += x.w;
    }
    const u32 bits[4] = {__float_as_uint(total.x), __float_as_uint(total.y), __float_as_uint(total.z),
                         __float_as_uint(total.w)};
    send(in_program(to + i * 16, program), bits, in_program(counter, program));
  }
}

// waits until so many bytes have come from the other program
DEVICE void hear_other(u32 counter, int bytes, int phase) {
  if (threadIdx.x == 0) expect_bytes(counter, bytes);
  while (!has_come(counter, phase)) {
  }
}
#endif
