/*
 * Logistic regression: the loss of a model over all samples, and its gradient, in one reduction. A step
 * of the training is to subtract some of the gradient from the weights.
 */
#include <muster_kernel.h>

#define FEATURES 8

struct logistic {
    double loss, gradient[FEATURES];
};

/* `label` is 0 or 1; a sample's features lie side by side. */
MUSTER_KERNEL void logistic(uint64_t i, MUSTER_GLOBAL const float *weights,
                            MUSTER_GLOBAL const float *features, MUSTER_GLOBAL const float *label,
                            MUSTER_PARTIAL struct logistic *all)
{
    float score = 0.0f;
    for (uint32_t k = 0; k < FEATURES; k++)
        score += weights[k] * features[i * FEATURES + k];
    /* exp of what is not positive cannot overflow, and log1p loses nothing of a small one. */
    float small = muster_exp(-muster_fabs(score));
    float likely = (score < 0.0f ? small : 1.0f) / (1.0f + small);
    float error = likely - label[i];
    all->loss += muster_log1p(small) + muster_max(score, 0.0f) - label[i] * score;
    for (uint32_t k = 0; k < FEATURES; k++)
        all->gradient[k] += error * features[i * FEATURES + k];
}

MUSTER_COMBINE void logistic_combine(MUSTER_PARTIAL struct logistic *into,
                                     MUSTER_PARTIAL const struct logistic *from)
{
    into->loss += from->loss;
    for (uint32_t k = 0; k < FEATURES; k++)
        into->gradient[k] += from->gradient[k];
}
