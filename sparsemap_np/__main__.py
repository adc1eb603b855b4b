"""``python -m sparsemap_np``: see the library work on real data."""

from sparsemap_np._demo import main

if __name__ == "__main__":
    main()
