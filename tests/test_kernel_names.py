"""Machine code is linked by qualified name: two kernels that share one would call each other."""

from sparsemap_np._kernels import table

KERNELS = (
    "forward",
    "bisect",
    "vjp",
    "dpar",
    "jacobian",
    "label_loss",
    "soft_loss",
    "bisect_label_loss",
    "bisect_soft_loss",
)


def qualified(function):
    function = getattr(function, "py_func", function)
    return f"{function.__module__}.{function.__qualname__}"


def test_every_product_of_a_factory_has_a_name_of_its_own():
    functions = {}
    for mapping in table.MAPPINGS:
        products = [mapping.row, *mapping.vjp_pair]
        for name in KERNELS:
            kernel = getattr(mapping, name)
            products += (
                [kernel.short, kernel.block, kernel.long] if hasattr(kernel, "short") else [kernel]
            )
        for function in products:
            # One function may serve several mappings, but no two functions may share a name.
            assert functions.setdefault(qualified(function), function) is function
    assert not [name for name in functions if "<locals>" in name]
