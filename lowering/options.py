"""Options of a program that its user chooses: attributes of the module, which a backend reads."""

#: The precisions of f32 matrix products, and the attribute of a module that chooses one.
PRECISIONS = ("ieee", "tf32", "tf32x3")
PRECISION = "oneflow.precision"
#: The attribute of a module that is "true" where the candidate configurations of kernels are timed.
AUTOTUNE = "oneflow.autotune"
#: The attribute of a module that is "true" where float additions must not be reordered.
DETERMINISTIC = "oneflow.deterministic"
