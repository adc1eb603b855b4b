"""The mappings on a GPU: the CPU's formulas in CUDA loops. Imported only for device arrays.

Layers inside this folder, each knowing only those above it:

``_compile``   how a function becomes device code
``_rows``      what a team of threads does with one row: read it, sum over it, write it
``_sparsemax``, ``_entmax15``, ``_dense``, ``_tsallis``, ``_steep``, ``_normmax``, ``_budget``
               one solver each: the numbers that fix every probability of a row
``_slopes``, ``_fy``
               derivatives and losses of one row
``_loops``     teams (a thread, a warp or a block for each row), and the kernels made of them
``table``      the record of every mapping
``_arrays``    the libraries that device arrays come from: their memory, their streams
``launch``     which kernel for which array
``losses``     the same for the losses
``interface``  what the rest of the package calls
"""
