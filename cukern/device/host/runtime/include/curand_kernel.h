// cuRAND's device generators run on a GPU alone: what calls one does not compile, and the message says why.
#pragma once
struct curandStateXORWOW { unsigned words[12]; };
typedef curandStateXORWOW curandStateXORWOW_t;
typedef curandStateXORWOW curandState_t;
typedef curandStateXORWOW curandState;
struct curandStatePhilox4_32_10 { unsigned words[16]; };
typedef curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;
struct curandStateMRG32k3a { unsigned words[18]; };
typedef curandStateMRG32k3a curandStateMRG32k3a_t;

#define CUKERN_CURAND(type, name)                                                                                         \
    template <class... T>                                                                                                 \
    __attribute__((error("cuRAND's device generators run on a GPU alone; cukern.random fills arrays"))) type name(T...);
CUKERN_CURAND(void, curand_init)
CUKERN_CURAND(unsigned, curand)
CUKERN_CURAND(uint4, curand4)
CUKERN_CURAND(float, curand_uniform)
CUKERN_CURAND(double, curand_uniform_double)
CUKERN_CURAND(float4, curand_uniform4)
CUKERN_CURAND(float, curand_normal)
CUKERN_CURAND(float2, curand_normal2)
CUKERN_CURAND(float4, curand_normal4)
CUKERN_CURAND(double, curand_normal_double)
CUKERN_CURAND(float, curand_log_normal)
CUKERN_CURAND(unsigned, curand_poisson)
CUKERN_CURAND(void, skipahead)
#undef CUKERN_CURAND
