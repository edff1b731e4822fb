/* Made by scripts/maths-constants: polynomials and tables of muster_kernel_math.h. */
/* exp: (e^z - 1 - z) / z^2 for |z| <= ln 2 / 2, and ln 2 in parts of which the first two times 2^15 are exact. */
MUSTER_MATH double muster_exp_rest(double z)
{
    double p = 0x1.61bfaa228dde5p-33;
    p = p * z + 0x1.1f7f2776cfaf2p-29;
    p = p * z + 0x1.ae642c82e33d5p-26;
    p = p * z + 0x1.27e4d41966f2fp-22;
    p = p * z + 0x1.71de3a5aa7bb7p-19;
    p = p * z + 0x1.a01a01a9e991bp-16;
    p = p * z + 0x1.a01a01a0196acp-13;
    p = p * z + 0x1.6c16c16c15a68p-10;
    p = p * z + 0x1.1111111111111p-7;
    p = p * z + 0x1.5555555555557p-5;
    p = p * z + 0x1.5555555555555p-3;
    p = p * z + 0x1.p-1;
    return p;
}

#define MUSTER_LOG2_E 0x1.71547652b82fep+0
#define MUSTER_LN2 0x1.62e42fefa39efp-1
#define MUSTER_LN2_LOW 0x1.abc9e3b39803fp-56
#define MUSTER_LN2_1 0x1.62e42fefa0000p-1
#define MUSTER_LN2_2 0x1.cf79abc9e0000p-40
#define MUSTER_LN2_3 0x1.d9cc01f97b57ap-79
/* exp2 and exp10: the same for 2^z and 10^z. */
MUSTER_MATH double muster_exp2_rest(double z)
{
    double p = 0x1.820b11cc725e5p-40;
    p = p * z + 0x1.c4a2aaa2b01d9p-36;
    p = p * z + 0x1.e8ca97815164ap-32;
    p = p * z + 0x1.e4cf10d1896bep-28;
    p = p * z + 0x1.b5253d3f8e53cp-24;
    p = p * z + 0x1.62c02242bb0bdp-20;
    p = p * z + 0x1.ffcbfc588a52bp-17;
    p = p * z + 0x1.430912f86b7d4p-13;
    p = p * z + 0x1.5d87fe78a6732p-10;
    p = p * z + 0x1.3b2ab6fba4e79p-7;
    p = p * z + 0x1.c6b08d704a0c0p-5;
    p = p * z + 0x1.ebfbdff82c58fp-3;
    return p;
}

MUSTER_MATH double muster_exp10_rest(double z)
{
    double p = 0x1.1411dccdbcda4p-17;
    p = p * z + 0x1.85c375ac0e4aap-15;
    p = p * z + 0x1.facfa46821d0bp-13;
    p = p * z + 0x1.2ea502e90ac1fp-10;
    p = p * z + 0x1.4897c46239a6ep-8;
    p = p * z + 0x1.4116b0676cb6fp-6;
    p = p * z + 0x1.16e4dfc333435p-4;
    p = p * z + 0x1.a7ed70847b420p-3;
    p = p * z + 0x1.1429ffd1d4d77p-1;
    p = p * z + 0x1.2bd7609fd98c6p+0;
    p = p * z + 0x1.0470591de2ca4p+1;
    p = p * z + 0x1.53524c73cea69p+1;
    return p;
}

#define MUSTER_LOG2_10 0x1.a934f0979a371p+1
#define MUSTER_LOG10_2_1 0x1.34413509f8000p-2
#define MUSTER_LOG10_2_2 -0x1.80433b83b532ap-44
#define MUSTER_LN10_1 0x1.26bb1bbb55516p+1
#define MUSTER_LN10_2 -0x1.f48ad494ea3e9p-53
/* log: (2 atanh(s) / s - 2) / z with z = s^2. */
MUSTER_MATH double muster_log_rest(double z)
{
    double p = 0x1.9e1d71199722ap-4;
    p = p * z + 0x1.81ecc36478440p-4;
    p = p * z + 0x1.af533ab07789fp-4;
    p = p * z + 0x1.e1e0d297e8982p-4;
    p = p * z + 0x1.11111337a83ebp-3;
    p = p * z + 0x1.3b13b1357aedcp-3;
    p = p * z + 0x1.745d1745da860p-3;
    p = p * z + 0x1.c71c71c71c693p-3;
    p = p * z + 0x1.2492492492492p-2;
    p = p * z + 0x1.999999999999ap-2;
    p = p * z + 0x1.5555555555555p-1;
    return p;
}

#define MUSTER_LOG2_E_1 0x1.7154768000000p+0
#define MUSTER_LOG2_E_2 -0x1.6a3e80f444178p-27
#define MUSTER_LOG10_E_1 0x1.bcb7b18000000p-2
#define MUSTER_LOG10_E_2 -0x1.6c8d78e6acaa4p-29
/* sin and cos of |t| <= pi / 4 with z = t^2, and pi / 2 and 2 / pi in parts. */
MUSTER_MATH double muster_sin_rest(double z)
{
    double p = 0x1.924296786f1a3p-49;
    p = p * z + -0x1.ae7c5380b1d5fp-41;
    p = p * z + 0x1.61245fb4cbac1p-33;
    p = p * z + -0x1.ae64567e72f38p-26;
    p = p * z + 0x1.71de3a556c2c7p-19;
    p = p * z + -0x1.a01a01a01a019p-13;
    p = p * z + 0x1.1111111111111p-7;
    p = p * z + -0x1.5555555555555p-3;
    return p;
}

MUSTER_MATH double muster_cos_rest(double z)
{
    double p = -0x1.65d2a22e5abfap-53;
    p = p * z + 0x1.ae7ce8a3f8ba5p-45;
    p = p * z + -0x1.9397495419394p-37;
    p = p * z + 0x1.1eed8eff3359ap-29;
    p = p * z + -0x1.27e4fb7789d97p-22;
    p = p * z + 0x1.a01a01a01a019p-16;
    p = p * z + -0x1.6c16c16c16c17p-10;
    p = p * z + 0x1.5555555555555p-5;
    return p;
}

#define MUSTER_PI_2_1 0x1.921fb58000000p+0
#define MUSTER_PI_2_2 -0x1.dde973dcb3b3ap-27
/* atan of |t| <= tan(pi / 8) and asin of |t| <= 1 / 2, with z = t^2. */
MUSTER_MATH double muster_atan_rest(double z)
{
    double p = 0x1.87da18e861544p-7;
    p = p * z + -0x1.bed97f0de4102p-6;
    p = p * z + 0x1.3104d13506c3dp-5;
    p = p * z + -0x1.5fc9004cb5437p-5;
    p = p * z + 0x1.857f934965bd4p-5;
    p = p * z + -0x1.af19a6c9bd78ep-5;
    p = p * z + 0x1.e1e0de6848e02p-5;
    p = p * z + -0x1.11110ad464dfdp-4;
    p = p * z + 0x1.3b13b106c8c33p-4;
    p = p * z + -0x1.745d1744b4a25p-4;
    p = p * z + 0x1.c71c71c718ce8p-4;
    p = p * z + -0x1.2492492492461p-3;
    p = p * z + 0x1.9999999999999p-3;
    p = p * z + -0x1.5555555555555p-2;
    return p;
}

MUSTER_MATH double muster_asin_rest(double z)
{
    double p = 0x1.06fcd949c1e78p-5;
    p = p * z + -0x1.e0b879df5f284p-6;
    p = p * z + 0x1.b2bd99109a205p-6;
    p = p * z + -0x1.66ca5d75ad4acp-9;
    p = p * z + 0x1.1ea468002e24fp-7;
    p = p * z + 0x1.c219ebbec4475p-8;
    p = p * z + 0x1.14f9d59122682p-7;
    p = p * z + 0x1.3fa8f6a7b6773p-7;
    p = p * z + 0x1.7a8b785f94c23p-7;
    p = p * z + 0x1.c99964a6c4b60p-7;
    p = p * z + 0x1.1c4ec5e133245p-6;
    p = p * z + 0x1.6e8ba2e2ef9c4p-6;
    p = p * z + 0x1.f1c71c71dc425p-6;
    p = p * z + 0x1.6db6db6db6c73p-5;
    p = p * z + 0x1.3333333333334p-4;
    p = p * z + 0x1.5555555555555p-3;
    return p;
}

#define MUSTER_PI_2 0x1.921fb54442d18p+0
#define MUSTER_PI_2_LOW 0x1.1a62633145c07p-54
#define MUSTER_THIRD_1 0x1.5555558000000p-2
#define MUSTER_THIRD_2 -0x1.5555555555555p-29

#ifdef MUSTER_NEEDS_QUADRANT
/* Row e: 2^e x 2 / pi without its multiples of 4. Parts: multiples of 2^-29 (row 0) or 2^-27, of 2^-58 or 2^-56, the rest. */
MUSTER_MATH_TABLE double muster_quadrant_0[106] = {
    0x1.45f306d000000p-1, 0x1.45f306c000000p+0, 0x1.45f306d000000p+1, 0x1.17cc1b6000000p+0,
    0x1.17cc1b7000000p+1, 0x1.7cc1b70000000p-2, 0x1.7cc1b70000000p-1, 0x1.7cc1b72000000p+0,
    0x1.7cc1b72000000p+1, 0x1.f306dc8000000p+0, 0x1.f306dc9000000p+1, 0x1.e60db93000000p+1,
    0x1.cc1b727000000p+1, 0x1.9836e4e000000p+1, 0x1.306dc9c000000p+1, 0x1.836e4e4000000p-1,
    0x1.836e4e4000000p+0, 0x1.836e4e4000000p+1, 0x1.06dc9c8000000p+1, 0x1.b727220000000p-4,
    0x1.b727220000000p-3, 0x1.b727220000000p-2, 0x1.b727220000000p-1, 0x1.b727220000000p+0,
    0x1.b727220000000p+1, 0x1.6e4e441000000p+1, 0x1.b939104000000p+0, 0x1.b939105000000p+1,
    0x1.727220a000000p+1, 0x1.c9c882a000000p+0, 0x1.c9c882a000000p+1, 0x1.9391054000000p+1,
    0x1.27220a9000000p+1, 0x1.3910548000000p-1, 0x1.391054a000000p+0, 0x1.391054a000000p+1,
    0x1.c882a50000000p-1, 0x1.c882a52000000p+0, 0x1.c882a53000000p+1, 0x1.91054a7000000p+1,
    0x1.220a94f000000p+1, 0x1.1054a7c000000p-1, 0x1.1054a7e000000p+0, 0x1.1054a7f000000p+1,
    0x1.054a7f0000000p-2, 0x1.054a7f0000000p-1, 0x1.054a7f0000000p+0, 0x1.054a7f0000000p+1,
    0x1.529fc20000000p-4, 0x1.529fc20000000p-3, 0x1.529fc20000000p-2, 0x1.529fc24000000p-1,
    0x1.529fc26000000p+0, 0x1.529fc27000000p+1, 0x1.4a7f09c000000p+0, 0x1.4a7f09d000000p+1,
    0x1.29fc274000000p+0, 0x1.29fc275000000p+1, 0x1.4fe13a8000000p-1, 0x1.4fe13aa000000p+0,
    0x1.4fe13ab000000p+1, 0x1.3f84eae000000p+0, 0x1.3f84eaf000000p+1, 0x1.fc2757c000000p-1,
    0x1.fc2757c000000p+0, 0x1.fc2757d000000p+1, 0x1.f84eafa000000p+1, 0x1.f09d5f4000000p+1,
    0x1.e13abe8000000p+1, 0x1.c2757d1000000p+1, 0x1.84eafa3000000p+1, 0x1.09d5f47000000p+1,
    0x1.3abe8f0000000p-3, 0x1.3abe8f8000000p-2, 0x1.3abe8f8000000p-1, 0x1.3abe8fa000000p+0,
    0x1.3abe8fa000000p+1, 0x1.d5f47d4000000p-1, 0x1.d5f47d4000000p+0, 0x1.d5f47d4000000p+1,
    0x1.abe8fa9000000p+1, 0x1.57d1f53000000p+1, 0x1.5f47d4c000000p+0, 0x1.5f47d4d000000p+1,
    0x1.7d1f534000000p+0, 0x1.7d1f534000000p+1, 0x1.f47d4d2000000p+0, 0x1.f47d4d3000000p+1,
    0x1.e8fa9a6000000p+1, 0x1.d1f534d000000p+1, 0x1.a3ea69b000000p+1, 0x1.47d4d37000000p+1,
    0x1.1f534dc000000p+0, 0x1.1f534dd000000p+1, 0x1.f534dd8000000p-2, 0x1.f534ddc000000p-1,
    0x1.f534ddc000000p+0, 0x1.f534ddc000000p+1, 0x1.ea69bb8000000p+1, 0x1.d4d3770000000p+1,
    0x1.a9a6ee0000000p+1, 0x1.534ddc0000000p+1, 0x1.4d37702000000p+0, 0x1.4d37703000000p+1,
    0x1.34ddc0c000000p+0, 0x1.34ddc0d000000p+1
};
MUSTER_MATH_TABLE double muster_quadrant_1[106] = {
    0x1.9391054000000p-30, 0x1.c9c882a000000p-28, 0x1.9391054000000p-28, 0x1.27220a9000000p-28,
    0x1.3910548000000p-30, 0x1.391054a000000p-29, 0x1.391054a000000p-28, 0x1.c882a50000000p-30,
    0x1.c882a52000000p-29, 0x1.c882a53000000p-28, 0x1.91054a7000000p-28, 0x1.220a94f000000p-28,
    0x1.1054a7c000000p-30, 0x1.1054a7e000000p-29, 0x1.1054a7f000000p-28, 0x1.054a7f0000000p-31,
    0x1.054a7f0000000p-30, 0x1.054a7f0000000p-29, 0x1.054a7f0000000p-28, 0x1.529fc20000000p-33,
    0x1.529fc20000000p-32, 0x1.529fc20000000p-31, 0x1.529fc24000000p-30, 0x1.529fc26000000p-29,
    0x1.529fc27000000p-28, 0x1.4a7f09c000000p-29, 0x1.4a7f09d000000p-28, 0x1.29fc274000000p-29,
    0x1.29fc275000000p-28, 0x1.4fe13a8000000p-30, 0x1.4fe13aa000000p-29, 0x1.4fe13ab000000p-28,
    0x1.3f84eae000000p-29, 0x1.3f84eaf000000p-28, 0x1.fc2757c000000p-30, 0x1.fc2757c000000p-29,
    0x1.fc2757d000000p-28, 0x1.f84eafa000000p-28, 0x1.f09d5f4000000p-28, 0x1.e13abe8000000p-28,
    0x1.c2757d1000000p-28, 0x1.84eafa3000000p-28, 0x1.09d5f47000000p-28, 0x1.3abe8f0000000p-32,
    0x1.3abe8f8000000p-31, 0x1.3abe8f8000000p-30, 0x1.3abe8fa000000p-29, 0x1.3abe8fa000000p-28,
    0x1.d5f47d4000000p-30, 0x1.d5f47d4000000p-29, 0x1.d5f47d4000000p-28, 0x1.abe8fa9000000p-28,
    0x1.57d1f53000000p-28, 0x1.5f47d4c000000p-29, 0x1.5f47d4d000000p-28, 0x1.7d1f534000000p-29,
    0x1.7d1f534000000p-28, 0x1.f47d4d2000000p-29, 0x1.f47d4d3000000p-28, 0x1.e8fa9a6000000p-28,
    0x1.d1f534d000000p-28, 0x1.a3ea69b000000p-28, 0x1.47d4d37000000p-28, 0x1.1f534dc000000p-29,
    0x1.1f534dd000000p-28, 0x1.f534dd8000000p-31, 0x1.f534ddc000000p-30, 0x1.f534ddc000000p-29,
    0x1.f534ddc000000p-28, 0x1.ea69bb8000000p-28, 0x1.d4d3770000000p-28, 0x1.a9a6ee0000000p-28,
    0x1.534ddc0000000p-28, 0x1.4d37702000000p-29, 0x1.4d37703000000p-28, 0x1.34ddc0c000000p-29,
    0x1.34ddc0d000000p-28, 0x1.a6ee06c000000p-30, 0x1.a6ee06c000000p-29, 0x1.a6ee06d000000p-28,
    0x1.4ddc0db000000p-28, 0x1.377036c000000p-29, 0x1.377036d000000p-28, 0x1.bb81b6c000000p-30,
    0x1.bb81b6c000000p-29, 0x1.bb81b6c000000p-28, 0x1.77036d8000000p-28, 0x1.dc0db62000000p-29,
    0x1.dc0db62000000p-28, 0x1.b81b6c5000000p-28, 0x1.7036d8a000000p-28, 0x1.c0db628000000p-29,
    0x1.c0db629000000p-28, 0x1.81b6c52000000p-28, 0x1.036d8a5000000p-28, 0x1.b6c5280000000p-34,
    0x1.b6c52a0000000p-33, 0x1.b6c52b0000000p-32, 0x1.b6c52b0000000p-31, 0x1.b6c52b0000000p-30,
    0x1.b6c52b2000000p-29, 0x1.b6c52b3000000p-28, 0x1.6d8a566000000p-28, 0x1.b629598000000p-29,
    0x1.b629599000000p-28, 0x1.6c52b32000000p-28
};
MUSTER_MATH_TABLE double muster_quadrant_2[106] = {
    0x1.4fe13abe8fa9ap-59, 0x1.4fe13abe8fa9ap-58, 0x1.4fe13abe8fa9ap-57, 0x1.3f84eafa3ea6ap-58,
    0x1.3f84eafa3ea6ap-57, 0x1.fc2757d1f534ep-59, 0x1.fc2757d1f534ep-58, 0x1.fc2757d1f534ep-57,
    0x1.f84eafa3ea69cp-57, 0x1.f09d5f47d4d37p-57, 0x1.e13abe8fa9a6fp-57, 0x1.c2757d1f534dep-57,
    0x1.84eafa3ea69bcp-57, 0x1.09d5f47d4d377p-57, 0x1.3abe8fa9a6ee0p-61, 0x1.3abe8fa9a6ee0p-60,
    0x1.3abe8fa9a6ee0p-59, 0x1.3abe8fa9a6ee0p-58, 0x1.3abe8fa9a6ee0p-57, 0x1.d5f47d4d37703p-59,
    0x1.d5f47d4d37703p-58, 0x1.d5f47d4d37703p-57, 0x1.abe8fa9a6ee07p-57, 0x1.57d1f534ddc0ep-57,
    0x1.5f47d4d377037p-58, 0x1.5f47d4d377037p-57, 0x1.7d1f534ddc0dbp-58, 0x1.7d1f534ddc0dbp-57,
    0x1.f47d4d377036ep-58, 0x1.f47d4d377036ep-57, 0x1.e8fa9a6ee06dbp-57, 0x1.d1f534ddc0db6p-57,
    0x1.a3ea69bb81b6cp-57, 0x1.47d4d377036d9p-57, 0x1.1f534ddc0db63p-58, 0x1.1f534ddc0db63p-57,
    0x1.f534ddc0db629p-60, 0x1.f534ddc0db629p-59, 0x1.f534ddc0db629p-58, 0x1.f534ddc0db629p-57,
    0x1.ea69bb81b6c53p-57, 0x1.d4d377036d8a5p-57, 0x1.a9a6ee06db14bp-57, 0x1.534ddc0db6296p-57,
    0x1.4d377036d8a56p-58, 0x1.4d377036d8a56p-57, 0x1.34ddc0db6295ap-58, 0x1.34ddc0db6295ap-57,
    0x1.a6ee06db14acdp-59, 0x1.a6ee06db14acdp-58, 0x1.a6ee06db14acdp-57, 0x1.4ddc0db629599p-57,
    0x1.377036d8a5665p-58, 0x1.377036d8a5665p-57, 0x1.bb81b6c52b328p-59, 0x1.bb81b6c52b328p-58,
    0x1.bb81b6c52b328p-57, 0x1.77036d8a5664fp-57, 0x1.dc0db6295993cp-58, 0x1.dc0db6295993cp-57,
    0x1.b81b6c52b3279p-57, 0x1.7036d8a5664f1p-57, 0x1.c0db6295993c4p-58, 0x1.c0db6295993c4p-57,
    0x1.81b6c52b32788p-57, 0x1.036d8a5664f11p-57, 0x1.b6c52b3278872p-63, 0x1.b6c52b3278872p-62,
    0x1.b6c52b3278872p-61, 0x1.b6c52b3278872p-60, 0x1.b6c52b3278872p-59, 0x1.b6c52b3278872p-58,
    0x1.b6c52b3278872p-57, 0x1.6d8a5664f10e4p-57, 0x1.b6295993c4390p-58, 0x1.b6295993c4390p-57,
    0x1.6c52b32788721p-57, 0x1.b14acc9e21c82p-58, 0x1.b14acc9e21c82p-57, 0x1.6295993c43904p-57,
    0x1.8a5664f10e410p-58, 0x1.8a5664f10e410p-57, 0x1.14acc9e21c821p-57, 0x1.4acc9e21c8210p-60,
    0x1.4acc9e21c8210p-59, 0x1.4acc9e21c8210p-58, 0x1.4acc9e21c8210p-57, 0x1.2b32788720840p-58,
    0x1.2b32788720840p-57, 0x1.5993c439041fep-59, 0x1.5993c439041fep-58, 0x1.5993c439041fep-57,
    0x1.664f10e4107f9p-58, 0x1.664f10e4107f9p-57, 0x1.993c439041fe5p-58, 0x1.993c439041fe5p-57,
    0x1.3278872083fcap-57, 0x1.93c439041fe51p-59, 0x1.93c439041fe51p-58, 0x1.93c439041fe51p-57,
    0x1.278872083fca3p-57, 0x1.3c439041fe516p-59, 0x1.3c439041fe516p-58, 0x1.3c439041fe516p-57,
    0x1.e21c820ff28b2p-59, 0x1.e21c820ff28b2p-58
};
#endif

#ifdef MUSTER_NEEDS_ERF
/* erf(x) / x for x in [i / 4, (i + 1) / 4): the middle's coefficients, lowest first. */
MUSTER_MATH_TABLE double muster_erf_0[16] = {
    0x1.1f5e1a35c3b89p+0, 0x1.13e08c7a16a26p+0, 0x1.fe8f1614e4ebbp-1, 0x1.cacbc181f7fbdp-1,
    0x1.9450bb1ec6057p-1, 0x1.611065fc93172p-1, 0x1.3448f8704c35dp-1, 0x1.0ee12190b194ap-1,
    0x1.e09a79ee7db91p-2, 0x1.aed200cd67bebp-2, 0x1.8603df090937fp-2, 0x1.64282886fef72p-2,
    0x1.47ad3ff3018a1p-2, 0x1.2f6827c1b08c7p-2, 0x1.1a7b909ae7a4ap-2, 0x1.08420fc7a4912p-2
};
MUSTER_MATH_TABLE double muster_erf_1[16] = {
    -0x1.7d900b9e8e99dp-4, -0x1.09ac3c1b2b12ep-2, -0x1.7edef5d89a390p-2, -0x1.b293239599bcep-2,
    -0x1.ad1533f367888p-2, -0x1.82ad1810b6ca1p-2, -0x1.48b7c44d5257ep-2, -0x1.0e9e17d6132b9p-2,
    -0x1.b87061646fb5ep-3, -0x1.675759c9fb4b1p-3, -0x1.284241dbd5d39p-3, -0x1.ef1beecc9bf68p-4,
    -0x1.a35763ed2ef1bp-4, -0x1.6793ed0a040bcp-4, -0x1.37b3d82995263p-4, -0x1.10c83ad00a3f2p-4
};
MUSTER_MATH_TABLE double muster_erf_2[16] = {
    -0x1.766bd13cfd39fp-2, -0x1.276ba5c062301p-2, -0x1.5275c582e5642p-3, -0x1.4574d9b084d42p-5,
    0x1.bbf4930fce5c5p-5,  0x1.ab151a79685f0p-4,  0x1.df8987f77664fp-4,  0x1.b7e9ea2ad6b21p-4,
    0x1.6bfb99623df53p-4,  0x1.1e314dd8ef1efp-4,  0x1.ba09e2a359a41p-5,  0x1.560bd27a00b08p-5,
    0x1.0bd914bd58695p-5,  0x1.a9f5181df9bf6p-6,  0x1.57e94aec0277dp-6,  0x1.199374fd5811dp-6
};
MUSTER_MATH_TABLE double muster_erf_3[16] = {
    0x1.c5a8e00e818fep-5,  0x1.24d6bbb463b43p-3,  0x1.671c4f2a788d0p-3,   0x1.367b5cb82fe39p-3,
    0x1.8a284b2850444p-4,  0x1.3fc0da03d327bp-5,  -0x1.685f0e5ab1955p-10, -0x1.5d2c6190105d7p-6,
    -0x1.ae6bfd18b4b34p-6, -0x1.8349c312caa60p-6, -0x1.3244824951e69p-6,  -0x1.cac3dca96ce93p-7,
    -0x1.52a6a0f70f6b6p-7, -0x1.f70a65d7c8963p-8, -0x1.7b2696397c885p-8,  -0x1.229a7defb8ffdp-8
};
MUSTER_MATH_TABLE double muster_erf_4[16] = {
    0x1.b4c1668cf86cap-4,   0x1.01ba55d898ec5p-4,  0x1.d2c7941d7d73fp-10, -0x1.6f0e9906a23acp-5,
    -0x1.f10767cbe69afp-5,  -0x1.9e43d4cd67314p-5, -0x1.e76d97559f901p-6, -0x1.6e17e723996f9p-7,
    -0x1.6324980f459d2p-15, 0x1.21e01ef799c98p-8,  0x1.4b850d128a538p-8,  0x1.143ef76df49acp-8,
    0x1.9a16385abb33bp-9,   0x1.2496775d64156p-9,  0x1.a01e86c673ed0p-10, 0x1.2b9392934e22ep-10
};
MUSTER_MATH_TABLE double muster_erf_5[16] = {
    -0x1.40e089dc7e054p-6,  -0x1.7d1fdd6dc666ap-5,  -0x1.7ea6ec34a35e7p-5,  -0x1.a399dc440bce6p-6,
    -0x1.2f7c087356704p-11, 0x1.dbc14cd484910p-7,   0x1.166e31fee185ap-6,   0x1.8b92ad96d3cedp-7,
    0x1.82ac17a772603p-8,   0x1.b23f6f0b4eaedp-10,  -0x1.4fd3da646781fp-12, -0x1.c8407f1720a80p-11,
    -0x1.ac1cef18b89c0p-11, -0x1.41544bb9de04fp-11, -0x1.bfb6a751cd25fp-12, -0x1.3304d662349b9p-12
};
MUSTER_MATH_TABLE double muster_erf_6[16] = {
    -0x1.9370e5fc6ca3ap-6, -0x1.390f03fb0e542p-7, 0x1.19502427005bcp-7,   0x1.1d6963871efc0p-6,
    0x1.d56744161f453p-7,  0x1.6c40e51dbfa14p-8,  -0x1.a015dea15f502p-10, -0x1.16753281591e6p-8,
    -0x1.dc45f3ee1731fp-9, -0x1.0747f2074a7bep-9, -0x1.80ca49da5f2e0p-11, -0x1.89abc4c6f286ep-14,
    0x1.e8e1d6df083eap-14, 0x1.21dc0104991dcp-13, 0x1.c04aa28810bf6p-14,  0x1.3328860d0d1efp-14
};
MUSTER_MATH_TABLE double muster_erf_7[16] = {
    0x1.496aef87d77e4p-8,  0x1.65d14fd1fee71p-7,   0x1.172f263fcd194p-7,   0x1.6032299fe087cp-10,
    -0x1.12da4d334da8ap-8, -0x1.4c8c3a0cfc112p-8,  -0x1.72cb5b2bf1828p-9,  -0x1.7bfc0403e3d84p-12,
    0x1.b352fdb6d0b5fp-11, 0x1.d6a2010a4393cp-11,  0x1.1a936010b280fp-11,  0x1.c606df6373182p-13,
    0x1.9271eb2d935adp-15, -0x1.6635245564449p-17, -0x1.5cd01d7fa9f05p-16, -0x1.1a49495c3422cp-16
};
MUSTER_MATH_TABLE double muster_erf_8[16] = {
    0x1.2fe95bea0e3f3p-8,   0x1.cc3b96462b46cp-11,  -0x1.80966c7eff3aap-9,  -0x1.ddcd1f223bbabp-9,
    -0x1.ac21a5c120294p-10, 0x1.3616f6193d370p-11,  0x1.6b5b881c59c0ap-10,  0x1.f553921e40141p-11,
    0x1.10e4411c0da9bp-12,  -0x1.0c09a7473fc39p-13, -0x1.92e9d11dbc1dcp-13, -0x1.00d742a5b06a2p-13,
    -0x1.ab7416232e00ap-15, -0x1.b7262502e7502p-17, 0x1.9fb544dabdc9ap-23,  0x1.7c31695063f02p-19
};
MUSTER_MATH_TABLE double muster_erf_9[16] = {
    -0x1.0ac34aed0b6fbp-10, -0x1.0775fa017bcd9p-9,  -0x1.25427023b3dc5p-10, 0x1.d181a92f138fep-12,
    0x1.28a033686c545p-10,  0x1.7824145068ce8p-11,  0x1.fc124736ba108p-17,  -0x1.4c27c1b01e44ap-12,
    -0x1.0f69d1985b6edp-12, -0x1.7260b8a5d9738p-14, 0x1.f930fda6391d3p-17,  0x1.3641c90d85611p-15,
    0x1.9a36d05ebbe8ep-16,  0x1.558ac75f491d9p-17,  0x1.6d217d7c4210cp-19,  0x1.63bb79f114087p-23
};
MUSTER_MATH_TABLE double muster_erf_10[16] = {
    -0x1.80e0f786e889dp-11, 0x1.5c95c56117863p-19,  0x1.424c9414f6458p-11,  0x1.1024243172feep-11,
    0x1.43e64d1da7f53p-16,  -0x1.2c5580a6b4418p-12, -0x1.def03ef5a8392p-13, -0x1.4857cfb4081bdp-15,
    0x1.0c8fb42deef6cp-14,  0x1.f91d75d0bbe58p-15,  0x1.787472f47dce0p-16,  -0x1.4fd2411475ec9p-20,
    -0x1.b9e2fa7c7bb89p-18, -0x1.25ef25fb31e97p-18, -0x1.dcd2c9651d4a2p-20, -0x1.f7f3f2d645cd3p-22
};
MUSTER_MATH_TABLE double muster_erf_11[16] = {
    0x1.62d86ad86d59bp-13,  0x1.3cef4f43b617ap-12,  0x1.a7a9b039c44f6p-14,  -0x1.32700802c0b0bp-13,
    -0x1.6bef54e2406bfp-13, -0x1.4380b311d977ap-15, 0x1.068f4264304a8p-14,  0x1.f72924dfccdd9p-15,
    0x1.eafec06436673p-17,  -0x1.8f3f663bb0644p-17, -0x1.a18ac3b1b0a50p-17, -0x1.3de7f8fb5d805p-18,
    0x1.a9b9664457bacp-25,  0x1.26743edee9ad8p-20,  0x1.7e80e2c198650p-21,  0x1.28a53c361c5dfp-22
};
MUSTER_MATH_TABLE double muster_erf_12[16] = {
    0x1.a11aee23cbfcdp-14,  -0x1.3a5ecb9c4e466p-16, -0x1.93d12cf1f1876p-14, -0x1.b302115a084aap-15,
    0x1.e505e74b99cb9p-16,  0x1.968feedcb4c86p-15,  0x1.00640d14003b7p-16,  -0x1.ab1d463be93c6p-17,
    -0x1.d0260a3ca8718p-17, -0x1.f243475953d18p-19, 0x1.24902205b1c97p-19,  0x1.3a880a39356c0p-19,
    0x1.cab3682638db7p-21,  -0x1.12499e894dcbap-27, -0x1.76770c71b3224p-23, -0x1.c629421c4592fp-24
};
#endif

#ifdef MUSTER_NEEDS_POW
/* For the i-th 128th of [1, 2): a number of 9 bits near its middle's inverse, and the log of what it is the inverse of. */
MUSTER_MATH_TABLE double muster_pow_log_0[128] = { 0x1.p+0,
                                                   0x1.fa00000000000p-1,
                                                   0x1.f600000000000p-1,
                                                   0x1.f200000000000p-1,
                                                   0x1.ee00000000000p-1,
                                                   0x1.ea00000000000p-1,
                                                   0x1.e800000000000p-1,
                                                   0x1.e400000000000p-1,
                                                   0x1.e000000000000p-1,
                                                   0x1.dc00000000000p-1,
                                                   0x1.da00000000000p-1,
                                                   0x1.d600000000000p-1,
                                                   0x1.d200000000000p-1,
                                                   0x1.d000000000000p-1,
                                                   0x1.cc00000000000p-1,
                                                   0x1.c800000000000p-1,
                                                   0x1.c600000000000p-1,
                                                   0x1.c200000000000p-1,
                                                   0x1.c000000000000p-1,
                                                   0x1.bc00000000000p-1,
                                                   0x1.ba00000000000p-1,
                                                   0x1.b600000000000p-1,
                                                   0x1.b400000000000p-1,
                                                   0x1.b000000000000p-1,
                                                   0x1.ae00000000000p-1,
                                                   0x1.aa00000000000p-1,
                                                   0x1.a800000000000p-1,
                                                   0x1.a600000000000p-1,
                                                   0x1.a200000000000p-1,
                                                   0x1.a000000000000p-1,
                                                   0x1.9e00000000000p-1,
                                                   0x1.9a00000000000p-1,
                                                   0x1.9800000000000p-1,
                                                   0x1.9600000000000p-1,
                                                   0x1.9400000000000p-1,
                                                   0x1.9000000000000p-1,
                                                   0x1.8e00000000000p-1,
                                                   0x1.8c00000000000p-1,
                                                   0x1.8a00000000000p-1,
                                                   0x1.8800000000000p-1,
                                                   0x1.8400000000000p-1,
                                                   0x1.8200000000000p-1,
                                                   0x1.8000000000000p-1,
                                                   0x1.7e00000000000p-1,
                                                   0x1.7c00000000000p-1,
                                                   0x1.7a00000000000p-1,
                                                   0x1.7800000000000p-1,
                                                   0x1.7600000000000p-1,
                                                   0x1.7400000000000p-1,
                                                   0x1.7200000000000p-1,
                                                   0x1.7000000000000p-1,
                                                   0x1.6e00000000000p-1,
                                                   0x1.6c00000000000p-1,
                                                   0x1.6900000000000p+0,
                                                   0x1.6700000000000p+0,
                                                   0x1.6500000000000p+0,
                                                   0x1.6300000000000p+0,
                                                   0x1.6100000000000p+0,
                                                   0x1.5f00000000000p+0,
                                                   0x1.5e00000000000p+0,
                                                   0x1.5c00000000000p+0,
                                                   0x1.5a00000000000p+0,
                                                   0x1.5800000000000p+0,
                                                   0x1.5600000000000p+0,
                                                   0x1.5400000000000p+0,
                                                   0x1.5300000000000p+0,
                                                   0x1.5100000000000p+0,
                                                   0x1.4f00000000000p+0,
                                                   0x1.4e00000000000p+0,
                                                   0x1.4c00000000000p+0,
                                                   0x1.4a00000000000p+0,
                                                   0x1.4900000000000p+0,
                                                   0x1.4700000000000p+0,
                                                   0x1.4500000000000p+0,
                                                   0x1.4400000000000p+0,
                                                   0x1.4200000000000p+0,
                                                   0x1.4000000000000p+0,
                                                   0x1.3f00000000000p+0,
                                                   0x1.3d00000000000p+0,
                                                   0x1.3c00000000000p+0,
                                                   0x1.3a00000000000p+0,
                                                   0x1.3900000000000p+0,
                                                   0x1.3700000000000p+0,
                                                   0x1.3600000000000p+0,
                                                   0x1.3400000000000p+0,
                                                   0x1.3300000000000p+0,
                                                   0x1.3200000000000p+0,
                                                   0x1.3000000000000p+0,
                                                   0x1.2f00000000000p+0,
                                                   0x1.2d00000000000p+0,
                                                   0x1.2c00000000000p+0,
                                                   0x1.2b00000000000p+0,
                                                   0x1.2900000000000p+0,
                                                   0x1.2800000000000p+0,
                                                   0x1.2700000000000p+0,
                                                   0x1.2500000000000p+0,
                                                   0x1.2400000000000p+0,
                                                   0x1.2300000000000p+0,
                                                   0x1.2100000000000p+0,
                                                   0x1.2000000000000p+0,
                                                   0x1.1f00000000000p+0,
                                                   0x1.1e00000000000p+0,
                                                   0x1.1c00000000000p+0,
                                                   0x1.1b00000000000p+0,
                                                   0x1.1a00000000000p+0,
                                                   0x1.1900000000000p+0,
                                                   0x1.1700000000000p+0,
                                                   0x1.1600000000000p+0,
                                                   0x1.1500000000000p+0,
                                                   0x1.1400000000000p+0,
                                                   0x1.1300000000000p+0,
                                                   0x1.1200000000000p+0,
                                                   0x1.1000000000000p+0,
                                                   0x1.0f00000000000p+0,
                                                   0x1.0e00000000000p+0,
                                                   0x1.0d00000000000p+0,
                                                   0x1.0c00000000000p+0,
                                                   0x1.0b00000000000p+0,
                                                   0x1.0a00000000000p+0,
                                                   0x1.0900000000000p+0,
                                                   0x1.0800000000000p+0,
                                                   0x1.0700000000000p+0,
                                                   0x1.0600000000000p+0,
                                                   0x1.0500000000000p+0,
                                                   0x1.0400000000000p+0,
                                                   0x1.0300000000000p+0,
                                                   0x1.0200000000000p+0,
                                                   0x1.p+0 };
MUSTER_MATH_TABLE double muster_pow_log_1[128] = { 0.0,
                                                   0x1.82448a3880000p-7,
                                                   0x1.432a925980000p-6,
                                                   0x1.c63d2ec140000p-6,
                                                   0x1.252f32f8e0000p-5,
                                                   0x1.67c94f2d40000p-5,
                                                   0x1.894aa14a00000p-5,
                                                   0x1.ccb73cdde0000p-5,
                                                   0x1.08598b59e0000p-4,
                                                   0x1.2aa04a4480000p-4,
                                                   0x1.3bdf5a7d20000p-4,
                                                   0x1.5e95a4d980000p-4,
                                                   0x1.8197e2f400000p-4,
                                                   0x1.9335e5d5a0000p-4,
                                                   0x1.b6ac88dae0000p-4,
                                                   0x1.da72763840000p-4,
                                                   0x1.ec739830a0000p-4,
                                                   0x1.08598b59e0000p-3,
                                                   0x1.1178e82280000p-3,
                                                   0x1.23d712a4a0000p-3,
                                                   0x1.2d1610c860000p-3,
                                                   0x1.3fb45a59a0000p-3,
                                                   0x1.4913d83340000p-3,
                                                   0x1.5bf406b540000p-3,
                                                   0x1.6574ebe8c0000p-3,
                                                   0x1.7898d85440000p-3,
                                                   0x1.823c165520000p-3,
                                                   0x1.8beafeb380000p-3,
                                                   0x1.9f6c407080000p-3,
                                                   0x1.a93ed3c8a0000p-3,
                                                   0x1.b31d8575c0000p-3,
                                                   0x1.c6ffbc6f00000p-3,
                                                   0x1.d1037f2660000p-3,
                                                   0x1.db13db0d40000p-3,
                                                   0x1.e530effe80000p-3,
                                                   0x1.f991c6cb40000p-3,
                                                   0x1.01eae56260000p-2,
                                                   0x1.07138604e0000p-2,
                                                   0x1.0c42d67620000p-2,
                                                   0x1.1178e82280000p-2,
                                                   0x1.1bf99635a0000p-2,
                                                   0x1.214456d0e0000p-2,
                                                   0x1.2696211340000p-2,
                                                   0x1.2bef07cdc0000p-2,
                                                   0x1.314f1e1d40000p-2,
                                                   0x1.36b6776be0000p-2,
                                                   0x1.3c25277340000p-2,
                                                   0x1.419b423d60000p-2,
                                                   0x1.4718dc2720000p-2,
                                                   0x1.4c9e09e180000p-2,
                                                   0x1.522ae07380000p-2,
                                                   0x1.57bf753c80000p-2,
                                                   0x1.5d5bddf5a0000p-2,
                                                   -0x1.5ff3070a80000p-2,
                                                   -0x1.5a42ab0f40000p-2,
                                                   -0x1.548a2c3ae0000p-2,
                                                   -0x1.4ec9732600000p-2,
                                                   -0x1.4900680400000p-2,
                                                   -0x1.432ef2a040000p-2,
                                                   -0x1.4043086860000p-2,
                                                   -0x1.3a64c556a0000p-2,
                                                   -0x1.347dd9a980000p-2,
                                                   -0x1.2e8e2bae20000p-2,
                                                   -0x1.2895a13de0000p-2,
                                                   -0x1.22941fbd00000p-2,
                                                   -0x1.1f8ff9e480000p-2,
                                                   -0x1.1980d2dd40000p-2,
                                                   -0x1.1368702940000p-2,
                                                   -0x1.1058bf9ae0000p-2,
                                                   -0x1.0a324e2740000p-2,
                                                   -0x1.0402594b40000p-2,
                                                   -0x1.00e6c45ae0000p-2,
                                                   -0x1.f550a564c0000p-3,
                                                   -0x1.e8c0252aa0000p-3,
                                                   -0x1.e27076e2a0000p-3,
                                                   -0x1.d5c216b500000p-3,
                                                   -0x1.c8ff7c79a0000p-3,
                                                   -0x1.c2968558c0000p-3,
                                                   -0x1.b5b519e900000p-3,
                                                   -0x1.af3c94e800000p-3,
                                                   -0x1.a23bc1fe20000p-3,
                                                   -0x1.9bb362e7e0000p-3,
                                                   -0x1.8e928de880000p-3,
                                                   -0x1.87fa065200000p-3,
                                                   -0x1.7ab8902100000p-3,
                                                   -0x1.740f8f5400000p-3,
                                                   -0x1.6d60fe71a0000p-3,
                                                   -0x1.5ff3070a80000p-3,
                                                   -0x1.59338d9980000p-3,
                                                   -0x1.4ba36f39a0000p-3,
                                                   -0x1.44d2b6ccc0000p-3,
                                                   -0x1.3dfc2b0ec0000p-3,
                                                   -0x1.303d718e40000p-3,
                                                   -0x1.29552f8200000p-3,
                                                   -0x1.2266f190a0000p-3,
                                                   -0x1.1478584680000p-3,
                                                   -0x1.0d77e7cd00000p-3,
                                                   -0x1.0671512ca0000p-3,
                                                   -0x1.f0a30c0120000p-4,
                                                   -0x1.e27076e2a0000p-4,
                                                   -0x1.d4313d66c0000p-4,
                                                   -0x1.c5e548f5c0000p-4,
                                                   -0x1.a926d3a4a0000p-4,
                                                   -0x1.9ab4246200000p-4,
                                                   -0x1.8c345d6320000p-4,
                                                   -0x1.7da766d7c0000p-4,
                                                   -0x1.60658a9380000p-4,
                                                   -0x1.51b073f060000p-4,
                                                   -0x1.42edcbea60000p-4,
                                                   -0x1.341d7961c0000p-4,
                                                   -0x1.253f62f0a0000p-4,
                                                   -0x1.16536eea40000p-4,
                                                   -0x1.f0a30c0120000p-5,
                                                   -0x1.d276b8adc0000p-5,
                                                   -0x1.b42dd711a0000p-5,
                                                   -0x1.95c830ec80000p-5,
                                                   -0x1.77458f6320000p-5,
                                                   -0x1.58a5bafc80000p-5,
                                                   -0x1.39e87b9fe0000p-5,
                                                   -0x1.1b0d989240000p-5,
                                                   -0x1.f829b0e780000p-6,
                                                   -0x1.b9fc027b00000p-6,
                                                   -0x1.7b91b07d60000p-6,
                                                   -0x1.3cea443460000p-6,
                                                   -0x1.fc0a8b0fc0000p-7,
                                                   -0x1.7dc475f820000p-7,
                                                   -0x1.fe02a6b100000p-8,
                                                   0.0 };
MUSTER_MATH_TABLE double muster_pow_log_2[128] = { 0.0,
                                                   0x1.4554412c584e0p-44,
                                                   0x1.98139928637fep-47,
                                                   0x1.55e318fe7acbdp-43,
                                                   -0x1.cf82ca3fbc931p-42,
                                                   0x1.76b08209f3283p-42,
                                                   -0x1.32f32ba0b44d0p-43,
                                                   -0x1.34d1e48fb0501p-43,
                                                   0x1.d034451fecdfbp-43,
                                                   -0x1.d0b6e8ae9c698p-41,
                                                   -0x1.19bd0ad125895p-44,
                                                   -0x1.b8d20c78ba3a4p-42,
                                                   0x1.c7e0373e5bff8p-41,
                                                   -0x1.6ceea3c542b82p-41,
                                                   -0x1.49c84015fbb47p-41,
                                                   0x1.1a89401fa7173p-42,
                                                   0x1.11fcba80cdd10p-44,
                                                   0x1.d034451fecdfbp-42,
                                                   -0x1.b8421cc74be04p-43,
                                                   -0x1.eff2dc702c20ap-42,
                                                   0x1.0273ad9970369p-40,
                                                   -0x1.ae68ec3f351aap-40,
                                                   -0x1.2a7c86ab02498p-41,
                                                   0x1.ed8fdc149767ep-42,
                                                   0x1.339f1658785cfp-43,
                                                   0x1.31ccf7c7b75e8p-41,
                                                   -0x1.70f91232ce70cp-41,
                                                   0x1.fd18556aa2da6p-40,
                                                   0x1.2cc826b432c0cp-40,
                                                   0x1.b3c6de57d4ef5p-40,
                                                   -0x1.8e1ac6a75670dp-42,
                                                   0x1.ee138d3a69d43p-44,
                                                   -0x1.43094fceb6deep-40,
                                                   0x1.12806a847527ep-40,
                                                   -0x1.dfdbdbb13f7c1p-40,
                                                   -0x1.321a099af9906p-41,
                                                   0x1.8d21ee7d6f42dp-39,
                                                   -0x1.4f3b192748959p-39,
                                                   -0x1.3a39dd3a70c54p-39,
                                                   -0x1.b8421cc74be04p-42,
                                                   0x1.ae5376a8a3deep-40,
                                                   0x1.71a87deba46bbp-39,
                                                   0x1.b724f077d6ecfp-39,
                                                   0x1.26a73e9294014p-39,
                                                   -0x1.46389eb4c84f3p-39,
                                                   0x1.116ecdb0f177cp-42,
                                                   -0x1.9cf895693f285p-39,
                                                   -0x1.738de489b78fbp-42,
                                                   -0x1.df27ce0967d67p-41,
                                                   -0x1.a7882246c2b63p-39,
                                                   0x1.47af9c205931dp-39,
                                                   0x1.a3f5bdbdcba82p-39,
                                                   -0x1.41a0b2a08a466p-39,
                                                   0x1.b0b0de3077d7ep-40,
                                                   -0x1.9fc338a1a4109p-39,
                                                   0x1.6ce9819cf7e31p-41,
                                                   -0x1.34d7aaf04d104p-45,
                                                   -0x1.3a19800f2f83ap-43,
                                                   -0x1.d0276b3674753p-39,
                                                   -0x1.4fc77a1824fbfp-39,
                                                   0x1.742c71a194651p-39,
                                                   -0x1.f55359159d3fbp-40,
                                                   0x1.c59ec7a66dcafp-39,
                                                   -0x1.0d46bd69260a0p-39,
                                                   0x1.0d34bb7af584bp-39,
                                                   -0x1.45e51b01032fap-39,
                                                   -0x1.1b7b3a7a361cap-41,
                                                   0x1.5d3e8499d6712p-40,
                                                   -0x1.2b54627e82ad3p-40,
                                                   0x1.bc728230217fap-40,
                                                   -0x1.a081b5c4f7a17p-39,
                                                   0x1.5fc672e55a3fep-39,
                                                   0x1.0991f1d049018p-40,
                                                   -0x1.697fa47f17190p-41,
                                                   -0x1.e5cbd3d50fffcp-40,
                                                   0x1.11ba91bbca682p-41,
                                                   -0x1.3443584bb03dep-40,
                                                   -0x1.8c0a308471d70p-43,
                                                   0x1.296e45d8023e6p-41,
                                                   -0x1.7fe5b19cc0327p-40,
                                                   -0x1.6ac6326e2360fp-40,
                                                   0x1.1f2a8a1ce0ffcp-45,
                                                   -0x1.b502a9627ae5bp-41,
                                                   -0x1.9221204012030p-40,
                                                   -0x1.b21237c6d65adp-40,
                                                   -0x1.bd264d9bf9d58p-42,
                                                   0x1.6f1b955c4d1dap-42,
                                                   0x1.b0b0de3077d7ep-41,
                                                   -0x1.042e9a2dd5575p-42,
                                                   -0x1.579568981bcc3p-41,
                                                   0x1.05c330584d5e1p-40,
                                                   -0x1.8c5395315c60ap-40,
                                                   -0x1.ff4bfa518e09ap-41,
                                                   0x1.5b967f4471dfcp-44,
                                                   -0x1.6b2df547bf181p-41,
                                                   0x1.7aa72ebbf60e3p-40,
                                                   -0x1.1cb2cd2ee2f48p-40,
                                                   -0x1.65b8a86323f5cp-41,
                                                   0x1.3ab33d066d1d2p-41,
                                                   -0x1.e5cbd3d50fffcp-41,
                                                   -0x1.66babc86eca8fp-41,
                                                   0x1.c5e7514f4083fp-43,
                                                   -0x1.aac6ca17a4554p-41,
                                                   -0x1.9d66df661e3e8p-43,
                                                   0x1.937c294d2f567p-42,
                                                   0x1.da66f776fe6edp-41,
                                                   0x1.5e789c422c761p-41,
                                                   -0x1.83f69278e686ap-44,
                                                   -0x1.1bc0eeea7c9adp-42,
                                                   0x1.717b6b33e44f8p-43,
                                                   -0x1.416f8fb69a701p-44,
                                                   0x1.0a3e2f3b47d18p-41,
                                                   0x1.3ab33d066d1d2p-42,
                                                   0x1.e95bdc38759b5p-42,
                                                   0x1.1c827ae5d6705p-42,
                                                   -0x1.c7d6fad074029p-42,
                                                   -0x1.b9f88c69e543ep-42,
                                                   -0x1.c9a918d51ea59p-42,
                                                   -0x1.7abf5202b6405p-42,
                                                   0x1.3401e9ae889bbp-44,
                                                   -0x1.980267c7e09e4p-45,
                                                   0x1.b9a010ae6922ap-44,
                                                   0x1.3b955b602ace4p-44,
                                                   -0x1.4ae9de694adfbp-43,
                                                   -0x1.f1e7cf6d3a69cp-50,
                                                   0x1.eb1245b5da1f5p-44,
                                                   -0x1.9e23f0dda40e4p-46,
                                                   0.0 };
#endif

#ifdef MUSTER_NEEDS_POW
/* 2^(i / 64): 26 bits, the next 53. */
MUSTER_MATH_TABLE double muster_pow_exp_0[64] = { 0x1.p+0,
                                                  0x1.02c9a40000000p+0,
                                                  0x1.059b0d0000000p+0,
                                                  0x1.0874518000000p+0,
                                                  0x1.0b55870000000p+0,
                                                  0x1.0e3ec30000000p+0,
                                                  0x1.11301d0000000p+0,
                                                  0x1.1429ab0000000p+0,
                                                  0x1.172b840000000p+0,
                                                  0x1.1a35be8000000p+0,
                                                  0x1.1d48730000000p+0,
                                                  0x1.2063b88000000p+0,
                                                  0x1.2387a70000000p+0,
                                                  0x1.26b4568000000p+0,
                                                  0x1.29e9df8000000p+0,
                                                  0x1.2d285a8000000p+0,
                                                  0x1.306fe08000000p+0,
                                                  0x1.33c08b0000000p+0,
                                                  0x1.371a738000000p+0,
                                                  0x1.3a7db38000000p+0,
                                                  0x1.3dea650000000p+0,
                                                  0x1.4160a20000000p+0,
                                                  0x1.44e0860000000p+0,
                                                  0x1.486a2b8000000p+0,
                                                  0x1.4bfdad8000000p+0,
                                                  0x1.4f9b278000000p+0,
                                                  0x1.5342b58000000p+0,
                                                  0x1.56f4738000000p+0,
                                                  0x1.5ab07e0000000p+0,
                                                  0x1.5e76f18000000p+0,
                                                  0x1.6247eb0000000p+0,
                                                  0x1.6623880000000p+0,
                                                  0x1.6a09e68000000p+0,
                                                  0x1.6dfb240000000p+0,
                                                  0x1.71f75e8000000p+0,
                                                  0x1.75feb58000000p+0,
                                                  0x1.7a11470000000p+0,
                                                  0x1.7e2f338000000p+0,
                                                  0x1.8258998000000p+0,
                                                  0x1.868d998000000p+0,
                                                  0x1.8ace540000000p+0,
                                                  0x1.8f1ae98000000p+0,
                                                  0x1.93737b0000000p+0,
                                                  0x1.97d82a0000000p+0,
                                                  0x1.9c49180000000p+0,
                                                  0x1.a0c6678000000p+0,
                                                  0x1.a5503b0000000p+0,
                                                  0x1.a9e6b58000000p+0,
                                                  0x1.ae89f98000000p+0,
                                                  0x1.b33a2b8000000p+0,
                                                  0x1.b7f76f0000000p+0,
                                                  0x1.bcc1e90000000p+0,
                                                  0x1.c199be0000000p+0,
                                                  0x1.c67f130000000p+0,
                                                  0x1.cb720e0000000p+0,
                                                  0x1.d072d48000000p+0,
                                                  0x1.d5818e0000000p+0,
                                                  0x1.da9e600000000p+0,
                                                  0x1.dfc9730000000p+0,
                                                  0x1.e502ee8000000p+0,
                                                  0x1.ea4afa0000000p+0,
                                                  0x1.efa1bf0000000p+0,
                                                  0x1.f507658000000p+0,
                                                  0x1.fa7c180000000p+0 };
MUSTER_MATH_TABLE double muster_pow_exp_1[64] = { 0.0,
                                                  -0x1.887f9f1190835p-28,
                                                  0x1.8ac2ba1d73e2ap-27,
                                                  0x1.d66f20230d7c9p-30,
                                                  -0x1.833b784eb3a37p-27,
                                                  0x1.69e8d10103a17p-27,
                                                  0x1.25b50a4ebbf1bp-32,
                                                  -0x1.56d2204cbefe7p-28,
                                                  -0x1.c15742919041cp-27,
                                                  0x1.b7e5ba9e5b4c8p-27,
                                                  0x1.68b9aa7805b80p-28,
                                                  0x1.8a3358ee3bac1p-30,
                                                  -0x1.8a9dc7993e052p-28,
                                                  -0x1.0ec1916d42cc6p-27,
                                                  -0x1.70108f69ed175p-27,
                                                  -0x1.1bfcf4bff6e2bp-28,
                                                  0x1.18db8a96f46adp-27,
                                                  0x1.320b7fa64e431p-27,
                                                  -0x1.8aac6ab1d7560p-29,
                                                  -0x1.8d30048af21b7p-27,
                                                  -0x1.f6e5eee525f6fp-27,
                                                  0x1.f72e29f84325cp-28,
                                                  0x1.8624b40c4dbd0p-30,
                                                  -0x1.1f6197f61f2e2p-27,
                                                  -0x1.64eaec715e343p-27,
                                                  -0x1.62d35952cc275p-28,
                                                  -0x1.62b07e20f57c4p-28,
                                                  -0x1.4ad8259913500p-28,
                                                  -0x1.5bd5eb539b67fp-27,
                                                  -0x1.296f5bc8b20dap-27,
                                                  0x1.d2ac258f87d03p-31,
                                                  0x1.2a91124893ecfp-27,
                                                  -0x1.80c4336f74d05p-28,
                                                  -0x1.cd72e886ef8eap-27,
                                                  0x1.d8bee7ba46e1ep-29,
                                                  -0x1.bd98374091656p-28,
                                                  0x1.f580c36bea881p-27,
                                                  -0x1.30b19defa2fd4p-28,
                                                  0x1.4cce128acf88bp-28,
                                                  0x1.a2497640720edp-27,
                                                  0x1.15506dadd3e2bp-27,
                                                  0x1.1577362b98274p-28,
                                                  0x1.9b8bc9e8a0388p-29,
                                                  -0x1.0d8d83a30b6f8p-31,
                                                  0x1.51f8480e3e236p-27,
                                                  0x1.aef2b2594d6d4p-27,
                                                  0x1.1f12ae45a1225p-27,
                                                  -0x1.4301205e0a6dep-27,
                                                  0x1.5ad3ad5e8734dp-28,
                                                  0x1.3c57ebdaff43ap-30,
                                                  0x1.7daf237553d84p-27,
                                                  0x1.2f074891ee83dp-30,
                                                  -0x1.3d56b1eeef9a7p-27,
                                                  -0x1.a82eb4b5dec80p-28,
                                                  -0x1.8837cb757e1a1p-27,
                                                  0x1.03c4bdc687918p-27,
                                                  -0x1.822dbc6d12fd3p-27,
                                                  0x1.ed9942b84600dp-27,
                                                  0x1.bdcdaf5cb4656p-27,
                                                  -0x1.d30027630bb40p-30,
                                                  0x1.52486cc2c7b9dp-27,
                                                  -0x1.9ea5d888e02dep-28,
                                                  0x1.b722a033a7c26p-27,
                                                  0x1.9e90d82e90a7ep-28 };
#endif

#ifdef MUSTER_NEEDS_TURNS
/* 2 / pi after 64 zero bits, 64 bits each. */
MUSTER_MATH_TABLE uint64_t muster_turns[21] = {
    0x0000000000000000u, 0xa2f9836e4e441529u, 0xfc2757d1f534ddc0u, 0xdb6295993c439041u,
    0xfe5163abdebbc561u, 0xb7246e3a424dd2e0u, 0x06492eea09d1921cu, 0xfe1deb1cb129a73eu,
    0xe88235f52ebb4484u, 0xe99c7026b45f7e41u, 0x3991d639835339f4u, 0x9c845f8bbdf9283bu,
    0x1ff897ffde05980fu, 0xef2f118b5a0a6d1fu, 0x6d367ecf27cb09b7u, 0x4f463f669e5fea2du,
    0x7527bac7ebe5f17bu, 0x3d0739f78a5292eau, 0x6bfb5fb11f8d5d08u, 0x56033046fc7b6babu,
    0xf0cfbc209af4361du
};
#endif

#ifdef MUSTER_NEEDS_ATAN2
/* atan(i / 64), in two parts. */
MUSTER_MATH_TABLE double muster_atan2_0[65] = { 0.0,
                                                0x1.fff555bbb729bp-7,
                                                0x1.ffd55bba97625p-6,
                                                0x1.7fb818430da2ap-5,
                                                0x1.ff55bb72cfdeap-5,
                                                0x1.3f59f0e7c559dp-4,
                                                0x1.7ee182602f10fp-4,
                                                0x1.be39ebe6f07c3p-4,
                                                0x1.fd5ba9aac2f6ep-4,
                                                0x1.1e1fafb043727p-3,
                                                0x1.3d6eee8c6626cp-3,
                                                0x1.5c9811e3ec26ap-3,
                                                0x1.7b97b4bce5b02p-3,
                                                0x1.9a6a8e96c8626p-3,
                                                0x1.b90d7529260a2p-3,
                                                0x1.d77d5df205736p-3,
                                                0x1.f5b75f92c80ddp-3,
                                                0x1.09dc597d86362p-2,
                                                0x1.18bf5a30bf178p-2,
                                                0x1.278372057ef46p-2,
                                                0x1.362773707ebccp-2,
                                                0x1.44aa436c2af0ap-2,
                                                0x1.530ad9951cd4ap-2,
                                                0x1.614840309cfe2p-2,
                                                0x1.6f61941e4def1p-2,
                                                0x1.7d5604b63b3f7p-2,
                                                0x1.8b24d394a1b25p-2,
                                                0x1.98cd5454d6b18p-2,
                                                0x1.a64eec3cc23fdp-2,
                                                0x1.b3a911da65c6cp-2,
                                                0x1.c0db4c94ec9f0p-2,
                                                0x1.cde53432c1351p-2,
                                                0x1.dac670561bb4fp-2,
                                                0x1.e77eb7f175a34p-2,
                                                0x1.f40dd0b541418p-2,
                                                0x1.0039c73c1a40cp-1,
                                                0x1.0657e94db30d0p-1,
                                                0x1.0c6145b5b43dap-1,
                                                0x1.1255d9bfbd2a9p-1,
                                                0x1.1835a88be7c13p-1,
                                                0x1.1e00babdefeb4p-1,
                                                0x1.23b71e2cc9e6ap-1,
                                                0x1.2958e59308e31p-1,
                                                0x1.2ee628406cbcap-1,
                                                0x1.345f01cce37bbp-1,
                                                0x1.39c391cd4171ap-1,
                                                0x1.3f13fb89e96f4p-1,
                                                0x1.445065b795b56p-1,
                                                0x1.4978fa3269ee1p-1,
                                                0x1.4e8de5bb6ec04p-1,
                                                0x1.538f57b89061fp-1,
                                                0x1.587d81f732fbbp-1,
                                                0x1.5d58987169b18p-1,
                                                0x1.6220d115d7b8ep-1,
                                                0x1.66d663923e087p-1,
                                                0x1.6b798920b3d99p-1,
                                                0x1.700a7c5784634p-1,
                                                0x1.748978fba8e0fp-1,
                                                0x1.78f6bbd5d315ep-1,
                                                0x1.7d528289fa093p-1,
                                                0x1.819d0b7158a4dp-1,
                                                0x1.85d69576cc2c5p-1,
                                                0x1.89ff5ff57f1f8p-1,
                                                0x1.8e17aa99cc05ep-1,
                                                0x1.921fb54442d18p-1 };
MUSTER_MATH_TABLE double muster_atan2_1[65] = { 0.0,
                                                -0x1.220c39d4dff50p-61,
                                                -0x1.5ec431444912cp-60,
                                                -0x1.86ef8f794f105p-63,
                                                -0x1.c934d86d23f1dp-60,
                                                0x1.ac4ce285df847p-58,
                                                -0x1.cfb654c0c3d98p-58,
                                                0x1.f7b8f29a05987p-58,
                                                -0x1.cd37686760c17p-59,
                                                -0x1.b485914dacf8cp-59,
                                                0x1.61a3b0ce9281bp-57,
                                                -0x1.054ab2c010f3dp-58,
                                                0x1.347b0b4f881cap-58,
                                                0x1.cf601e7b4348ep-59,
                                                0x1.17b10d2e0e5abp-61,
                                                0x1.c648d1534597ep-57,
                                                0x1.8ab6e3cf7afbdp-57,
                                                0x1.62e47390cb865p-56,
                                                0x1.30ca4748b1bf9p-57,
                                                -0x1.077cdd36dfc81p-56,
                                                -0x1.963a544b672d8p-57,
                                                -0x1.5d5e43c55b3bap-56,
                                                -0x1.2566480884082p-57,
                                                -0x1.a725715711f00p-56,
                                                -0x1.c63aae6f6e918p-56,
                                                0x1.69c885c2b249ap-56,
                                                0x1.b6d0ba3748fa8p-56,
                                                0x1.9e6c988fd0a77p-56,
                                                -0x1.24dec1b50b7ffp-56,
                                                0x1.ae187b1ca5040p-56,
                                                -0x1.cc1ce70934c34p-56,
                                                -0x1.a2cfa4418f1adp-56,
                                                0x1.a2b7f222f65e2p-56,
                                                0x1.0e53dc1bf3435p-56,
                                                -0x1.a3992dc382a23p-57,
                                                -0x1.b32c949c9d593p-55,
                                                -0x1.d5b495f6349e6p-56,
                                                0x1.974fa13b5404fp-58,
                                                -0x1.2bdaee1c0ee35p-58,
                                                0x1.c621cec00c301p-55,
                                                -0x1.928df287a668fp-58,
                                                0x1.c421c9f38224ep-57,
                                                -0x1.09e73b0c6c087p-56,
                                                0x1.c5d5e9ff0cf8dp-55,
                                                0x1.1021137c71102p-55,
                                                -0x1.2304331d8bf46p-55,
                                                0x1.ecf8b492644f0p-56,
                                                -0x1.f76d0163f79c8p-56,
                                                0x1.2419a87f2a458p-56,
                                                0x1.4a33dbeb3796cp-55,
                                                -0x1.1bb74abda520cp-55,
                                                -0x1.5e5c9d8c5a950p-56,
                                                0x1.0028e4bc5e7cap-57,
                                                -0x1.2b785350ee8c1p-57,
                                                -0x1.6ea6febe8bbbap-56,
                                                -0x1.a80386188c50ep-55,
                                                -0x1.8c34d25aadef6p-56,
                                                0x1.7b2a6165884a1p-59,
                                                0x1.406a089803740p-55,
                                                0x1.560821e2f3aa9p-55,
                                                -0x1.bf76229d3b917p-56,
                                                0x1.6b66e7fc8b8c3p-57,
                                                -0x1.55b9a5e177a1bp-55,
                                                -0x1.ec182ab042f61p-56,
                                                0x1.1a62633145c07p-55 };
#endif
