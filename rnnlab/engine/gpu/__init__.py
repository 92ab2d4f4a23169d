"""The GPU path: kernels generated from a plan, for one network or a population. Each launch runs whole sequences.

A model (`engine/model.py`) calls `choice.choose`, which returns a `GpuProgram`, then `autograd.run_gpu`, which runs it.
`docs/engine.md` describes the three kinds of kernels and their differences. The files, in the order of the path:

    the choice
        choice.py                  which kernels run a network on this many members and sequences, by a cost model
        costs.py                   what a time step takes where each member has programs of its own
        sharing.py                 how many multiprocessors (SMs) a model may take
        limits.py                  what the GPU can do: shared memory, clusters, kernels in CUDA C++
        cudnn.py                   the alternative on request: stacks of layers that cuDNN runs
    what is prepared once
        program.py                 `GpuProgram`: how numbers are stored, and which kernels run each component
        kernels.py                 these kernels: written, compiled once, and kept
        layout.py                  padded widths, tiles, precisions
        formulas.py                a cell's formulas as text, for Triton and for CUDA C++
    general kernels (Triton)       one program (thread block) for each member and some sequences; any cyclic component
        writer.py                  lines, arrays and tiles of the text
        general_forward.py         the two kernels
        general_backward.py
    kernels in CUDA C++
        cuda_writer.py             lines, arrays and rows of the text
        instructions.cu            what every kernel begins with: PTX instructions
        matrix_units.cu            products of the matrix units (tensor cores)
    spread kernels (CUDA C++)      each program has some units of one node; programs wait for one another's numbers
        spread.py                  how the work is divided, and what that costs
        spread_node.py, spread.cu  what both passes share, as a writer and as a library
        spread_forward.py          the two kernels
        spread_backward.py
    resident kernels (CUDA C++)    one program, or a cluster of them, keeps a member's matrices on the chip
        resident.py                what fits, and how it is divided
        resident_writer.py         what both passes share, as a writer and, in resident.cu, as a library
        resident_forward.py        the two kernels
        resident_backward.py, resident_backward_node.py
    relays                         resident components side by side in one kernel, handing states on as they go
        relay_groups.py            which components form a relay
        relay.py                   how they share the GPU
        relay_text.py              the kernel of a relay, put together from those of its components
    from text to functions
        compiled.py                Triton
        cuda_driver.py             CUDA C++, by NVRTC and the driver
    a run
        autograd.py                the entry: one operation of torch's autograd
        arrays.py                  `GpuArrays`: parameters, inputs, and what the forward pass keeps
        launch.py                  the forward pass, component by component, and the launch of kernels
        hoisted.py                 what depends on no recurrence, over all times at once
        products.py                the large products of that, by torch
        memory_bound.py            transposes, narrow outputs and their gradients, in one pass over memory each
        backward.py                the backward pass, and gradients of parameters

Words: a *component* of a plan is a group of nodes that run together; a *moment* is one node at one time step; a *part*
is one of the vectors of a node's state, such as an LSTM's c; a *member* is one network of a population.
"""
