// What kernels of a spread network share: waiting for one another, and products whose depth eight warps share.
//
// A program holds UNITS units of one node for ROWS sequences. Each of its warps copies its own part of what is multiplied,
// 64 bytes of every row at a time (a chunk), multiplies it, and leaves its sums in shared memory, where the threads that
// compute the formulas add them up.

constexpr int CHUNK = 64;  // bytes of a row that are copied at a time

// -------------------------------------------------------------------------------------------------------------- waiting

// a warp waits until all of `count` programs have published at least `steps` of their moments
DEVICE void await(const int *flags, int count, int steps) {
  const int lane = threadIdx.x % 32;
  for (int first = 0; first < count; first += 32) {
    const bool is_there = first + lane < count;
    while (!__all_sync(~0u, !is_there || seen(flags + first + lane) >= steps)) {
    }
  }
  __syncwarp();
}

// after all threads have stored what others will read
DEVICE void publish(int *flag, int steps) {
  __syncthreads();
  if (threadIdx.x == 0) show(flag, steps);
}

// A chunk lies as rows of 64 bytes, four pieces of 16 in an order that turns with the row, so that eight rows' pieces
// touch every bank once. What a lane copies of it, and what it loads, differs from row to row by a constant.
DEVICE u32 piece(int row, int number) { return row * CHUNK + ((number ^ (row >> 1)) & 3) * 16; }

// where a lane finds the first of the rows that it copies: eight rows at a time, four lanes a row
struct Copier {
  u32 to;
  i64 from, eight_rows;
  int row, number;
  DEVICE Copier(i64 stride) {
    const int lane = threadIdx.x % 32;
    row = lane / 4, number = lane % 4;
    to = piece(row, number);
    from = row * stride + number * 16;
    eight_rows = 8 * stride;
  }
};

// a warp copies a chunk of `bytes` from each of COUNT rows, of which the first `live` are there
template <int COUNT> DEVICE void copy_rows(const Copier &lane, u32 to, const char *from, int bytes, int live) {
  if (lane.number * 16 >= bytes) return;
#pragma unroll
  for (int i = 0; i < COUNT / 8; ++i) {
    const bool is_there = lane.row + i * 8 < live;
    copy16(to + lane.to + i * 8 * CHUNK, from + (is_there ? lane.from + i * lane.eight_rows : 0), is_there);
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
DEVICE void multiply_step(float (&sums)[M][N][4], u32 left, u32 right, const Right &matrix, int chunk, int step) {
  u32 a[M][4];
#pragma unroll
  for (int m = 0; m < M; ++m) load_tiles(a[m], (left ^ (step * STEP)) + m * 16 * CHUNK);
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

// the same of a chunk; the groups' columns follow one another in the matrix
template <int... GROUPS, int M, int N, class Right>
DEVICE void multiply_chunk(float (&sums)[M][N][4], u32 chunk_start, const Right &matrix, int chunk, int bytes) {
  const int lane = threadIdx.x % 32;
  const u32 left = chunk_start + piece(lane % 16, lane / 16);
  const u32 right = matrix.lane(lane % 8 + (UNITS == 8 ? 0 : lane / 16 * 8), lane / 8 % 2);
  multiply_step<GROUPS...>(sums, left, right, matrix, chunk, 0);
  if (bytes == CHUNK) multiply_step<GROUPS...>(sums, left, right, matrix, chunk, 1);
}

// chunk after chunk of a warp's part of the depth: `issue` begins to copy one, `use` multiplies it when it is there
template <int STAGES, class Issue, class Use>
DEVICE void in_turn(int first, int last, u32 buffer, int stage_bytes, Issue issue, Use use) {
#pragma unroll
  for (int i = 0; i < STAGES - 1; ++i) {
    if (first + i < last) issue(first + i, buffer + i * stage_bytes);
    end_group();
  }
  for (int chunk = first; chunk < last; ++chunk) {
    await_groups<STAGES - 2>();
    __syncwarp();
    const int ahead = chunk + STAGES - 1;
    if (ahead < last) issue(ahead, buffer + (ahead - first) % STAGES * stage_bytes);
    end_group();
    use(chunk, buffer + (chunk - first) % STAGES * stage_bytes);
  }
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
