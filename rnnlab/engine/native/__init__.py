"""Machine code for the CPU at hand, written through LLVM: matrix products, a cell's arithmetic, the loop over time."""
