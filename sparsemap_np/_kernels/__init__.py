"""Numba kernels: formulas and row loops only, no argument handling.

Layers inside this folder, each knowing only those above it:

``_compile``   how a function becomes machine code, and where that is cached
``_powers``    exp, log and powers that vectorise
``_scan``      block maxima and NaN of a row
``_lanes``     short rows side by side, one to a lane of the vectors
``_sparsemax``, ``_entmax15``, ``_tsallis``, ``_steep``, ``_argmax``, ``_normmax``, ``_budget``
               one row solver each: scores in, probabilities out; ``_lanes`` at the end of a name:
               the same for short rows
``_slopes``    one row of a vector-Jacobian product each
``_fy``        one row of a Fenchel-Young loss each
``_loops``     the loops over rows that all of them share
``table``      the record of every mapping; the only module that the rest of the package reads
"""
