"""Floating-point formats f32 and f64 for approximations of functions: bit positions, limits, coefficients.

The coefficients of f32 are those of Cephes. The coefficients of f64 interpolate in Chebyshev points, to less than
2^-54.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Format:
    """A floating-point format.

    Beyond `exp_range` and `exp2_range`, e^x and 2^x are 0 or infinite. From `expm1_limit` on, e^x - 1 equals e^x.
    `root_half` are the bits of sqrt(1/2). Ratios are scaled if a term exceeds `ratio_limit`. Constants are in parts:
    the first part has so few bits that its products with exponents are exact. Polynomials begin with the highest
    power: `expm1` is (e^r - 1 - r) / r^2, `log` is (log((1 + s) / (1 - s)) / s - 2) / s^2, `cosine` is (cos(r) - 1 +
    r^2 / 2) / r^4, and the others are (f(x) / x - 1) / x^2. All but `expm1` are polynomials in the square.
    """

    integer: str
    mantissa_bits: int
    bias: int
    root_half: int
    infinity: str
    minus_infinity: str
    nan: str
    smallest_normal: float
    ratio_limit: float
    exp_range: tuple[float, float]
    exp2_range: tuple[float, float]
    expm1_limit: float
    log_2: tuple[float, float]
    log10_2: tuple[float, float]
    half_pi: tuple[float, ...]
    expm1: tuple[float, ...]
    log: tuple[float, ...]
    sinh: tuple[float, ...]
    sine: tuple[float, ...]
    cosine: tuple[float, ...]
    tangent: tuple[float, ...]
    arcsine: tuple[float, ...]
    arctangent: tuple[float, ...]

    @property
    def rounding_shift(self) -> float:
        """Adding this number to a value leaves the value's integral part in the low bits of the sum."""
        return 1.5 * 2.0**self.mantissa_bits


F32 = Format(
    integer="i32", mantissa_bits=23, bias=127, root_half=0x3F3504F3,
    infinity="0x7F800000", minus_infinity="0xFF800000", nan="0x7FC00000",
    smallest_normal=1.17549435e-38, ratio_limit=1e30,
    exp_range=(-104.0, 89.0), exp2_range=(-151.0, 129.0), expm1_limit=20.0,
    log_2=(0.693359375, -2.12194440e-4), log10_2=(0.30078125, 2.4874566e-4),
    half_pi=(1.57079637050628662109375, -4.37113882867379e-8, -1.71512451e-15),
    expm1=(1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1),
    log=(0.29580985929974424, 0.39988757716604845, 0.66666685095429068),
    sinh=(2.03721912945e-4, 8.33028376239e-3, 1.66667160211e-1),
    sine=(-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1),
    cosine=(2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2),
    tangent=(
        9.38540185543e-3, 3.11992232697e-3, 2.44301354525e-2, 5.34112807005e-2, 1.33387994085e-1, 3.33331568548e-1,
    ),
    arcsine=(4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1),
    arctangent=(8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1),
)  # fmt: skip

F64 = Format(
    integer="i64", mantissa_bits=52, bias=1023, root_half=0x3FE6A09E667F3BCD,
    infinity="0x7FF0000000000000", minus_infinity="0xFFF0000000000000", nan="0x7FF8000000000000",
    smallest_normal=2.2250738585072014e-308, ratio_limit=1e300,
    exp_range=(-746.0, 710.0), exp2_range=(-1076.0, 1025.0), expm1_limit=40.0,
    log_2=(6.93147180369123816490e-1, 1.90821492927058770002e-10),
    log10_2=(3.01029995663611771306e-1, 3.69423907715893078616e-13),
    half_pi=(1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
    expm1=(
        2.5100424157005067e-08, 2.7620138719733994e-07, 2.7557268378684192e-06, 2.4801521190217729e-05,
        0.00019841269863105968, 0.0013888888917281794, 0.0083333333333300511, 0.04166666666662399,
        0.16666666666666669, 0.50000000000000011,
    ),
    log=(
        0.14617807153417325, 0.15331611722055008, 0.18182892432536871, 0.22222211089379496, 0.28571428626253836,
        0.39999999999898889, 0.66666666666666696,
    ),
    sinh=(
        7.7461785930188273e-13, 1.6057679623801638e-10, 2.5052117695907823e-08, 2.7557319191381816e-06,
        0.00019841269841324198, 0.0083333333333332985, 0.16666666666666666,
    ),
    sine=(
        1.5918059136982811e-10, -2.5051130870968297e-08, 2.7557316097877749e-06, -0.00019841269836749561,
        0.0083333333333309428, -0.16666666666666666,
    ),
    cosine=(
        -1.1382588535352522e-11, 2.0876145659059344e-09, -2.7557317268805391e-07, 2.4801587298760048e-05,
        -0.0013888888888887393, 0.041666666666666664,
    ),
    tangent=(
        1.8241159416717335e-05, -3.3795574836001496e-05, 6.85954811934019e-05, -3.3347565099869009e-06,
        0.00011992119463293461, 0.00023055970720221142, 0.00059225138063868986, 0.0014554352775928514,
        0.0035921763738298021, 0.0088632317542211847, 0.021869488712174361, 0.053968253963985309,
        0.13333333333337399, 0.33333333333333326,
    ),
    arcsine=(
        0.02877844261259304, -0.014881409392818066, 0.017419357964884856, 0.0054508781877205502,
        0.010324318288744113, 0.011478952690257387, 0.013971235301124539, 0.017352391265909227,
        0.022372173002005596, 0.030381944137085216, 0.04464285714637338, 0.074999999999984246,
        0.16666666666666669,
    ),
    arctangent=(
        -0.019162068915902573, 0.039219552532551293, -0.050850304928109408, 0.058580687568615106,
        -0.066645022156714473, 0.076921825351166484, -0.090909045498846111, 0.11111111014561013,
        -0.14285714284657894, 0.1999999999999548, -0.33333333333333331,
    ),
)  # fmt: skip

#: Formats by the names of MLIR's types.
FORMATS = {"f32": F32, "f64": F64}
