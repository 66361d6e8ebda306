/* Layers to try, by kind: options and input shapes, sizes of one and odd ones among them.
 * tests/double_gradients.c refuses a registered kind that has no case here. */
#ifndef PODSIM_TESTS_LAYER_CASES_H
#define PODSIM_TESTS_LAYER_CASES_H

#include "tests/layer_bench.h"

static const struct layer_case layer_cases[] = {
    {"linear", {{"out", 3}}, 4, 1, {{1, {5}}}, 0},
    {"linear", {{"out", 1}}, 1, 1, {{1, {1}}}, 0},
    {"linear", {{"out", 7}, {"bias", 0}}, 3, 1, {{2, {5, 9}}}, 0},
    {"linear", {{"out", 33}, {"gain", 0.5}}, 2, 1, {{3, {2, 1, 17}}}, 0},
    {"relu", {{0}}, 3, 1, {{3, {2, 3, 5}}}, 0},
    {"relu", {{0}}, 1, 1, {{1, {1}}}, 0},
    {"flatten", {{0}}, 3, 1, {{3, {2, 3, 5}}}, 0},
    {"flatten", {{0}}, 1, 1, {{1, {1}}}, 0},
    {"add", {{0}}, 3, 2, {{2, {3, 5}}, {2, {3, 5}}}, 0},
    {"add", {{0}}, 2, 3, {{1, {1}}, {1, {1}}, {1, {1}}}, 0},
    {"gelu", {{0}}, 3, 1, {{2, {3, 7}}}, 0},
    {"gelu", {{"tanh", 1}}, 3, 1, {{2, {3, 7}}}, 0},
    {"dropout", {{"rate", 0.4}}, 3, 1, {{2, {3, 7}}}, 0},
    {"dropout", {{"rate", 0}}, 1, 1, {{1, {1}}}, 0},
    {"layer_norm", {{0}}, 3, 1, {{2, {3, 7}}}, 0},
    {"layer_norm", {{"epsilon", 0.1}}, 2, 1, {{1, {19}}}, 0},
    {"layer_norm", {{0}}, 2, 1, {{3, {1, 2, 16}}}, 0},
    {"slice", {{"count", 2}}, 3, 1, {{2, {5, 3}}}, 0},
    {"slice", {{"first", 4}, {"count", 1}}, 1, 1, {{1, {5}}}, 0},
    {"embedding", {{"vocabulary", 5}, {"width", 3}}, 3, 1, {{1, {7}}}, 5},
    {"embedding", {{"vocabulary", 3}, {"width", 5}, {"scaled", 1}}, 2, 1, {{1, {4}}}, 3},
    {"embedding", {{"vocabulary", 1}, {"width", 1}}, 1, 1, {{1, {1}}}, 1},
    {"positions", {{0}}, 3, 1, {{2, {5, 3}}}, 0},
    {"positions", {{"learned", 0}}, 2, 1, {{2, {3, 5}}}, 0},
    {"positions", {{0}}, 1, 1, {{2, {1, 1}}}, 0},
    {"attention", {{"heads", 3}}, 2, 1, {{2, {5, 6}}}, 0},
    {"attention", {{"heads", 2}, {"causal", 1}}, 3, 1, {{2, {7, 4}}}, 0},
    {"attention", {{"heads", 1}, {"bias", 0}, {"causal", 1}}, 1, 1, {{2, {4, 3}}}, 0},
    {"attention", {{"heads", 2}, {"gain", 0.5}}, 2, 1, {{2, {19, 2}}}, 0},
    {"attention", {{"heads", 1}}, 1, 1, {{2, {1, 1}}}, 0},
    {"attention", {{"heads", 1}, {"causal", 1}}, 2, 1, {{2, {64, 2}}}, 0},
    {"attention", {{"heads", 2}, {"causal", 1}}, 1, 1, {{2, {131, 2}}}, 0},
    {"cross_attention", {{"heads", 3}}, 2, 2, {{2, {5, 6}}, {2, {3, 4}}}, 0},
    {"cross_attention", {{"heads", 1}, {"bias", 0}}, 3, 2, {{2, {1, 5}}, {2, {7, 5}}}, 0},
    {"cross_attention", {{"heads", 2}}, 1, 2, {{2, {18, 2}}, {2, {1, 1}}}, 0},
    {"conv2d", {{"channels", 4}, {"padding", 1}}, 2, 1, {{3, {3, 5, 7}}}, 0},
    {"conv2d", {{"channels", 6}, {"stride", 2}, {"padding", 1}, {"groups", 2}, {"bias", 1}}, 2, 1, {{3, {4, 6, 5}}}, 0},
    {"conv2d", {{"channels", 3}, {"kernel", 1}}, 3, 1, {{3, {2, 3, 4}}}, 0},
    {"conv2d", {{"channels", 3}, {"kernel", 1}, {"stride", 2}}, 2, 1, {{3, {2, 5, 4}}}, 0},
    {"conv2d", {{"channels", 2}, {"kernel", 7}, {"stride", 3}, {"padding", 3}}, 1, 1, {{3, {1, 9, 8}}}, 0},
    {"conv2d", {{"channels", 1}, {"kernel", 1}}, 1, 1, {{3, {1, 1, 1}}}, 0},
    {"conv2d", {{"channels", 2}, {"kernel", 3}, {"stride", 5}, {"padding", 4}}, 1, 1, {{3, {2, 2, 3}}}, 0},
    {"batch_norm", {{0}}, 3, 1, {{3, {2, 3, 5}}}, 0},
    {"batch_norm", {{"epsilon", 0.1}}, 5, 1, {{1, {3}}}, 0},
    {"group_norm", {{"groups", 2}}, 2, 1, {{3, {4, 3, 5}}}, 0},
    {"group_norm", {{"groups", 3}, {"epsilon", 0.1}}, 2, 1, {{1, {9}}}, 0},
    {"group_norm", {{"groups", 1}}, 1, 1, {{3, {1, 3, 3}}}, 0},
    {"max_pool", {{"kernel", 3}, {"stride", 2}, {"padding", 1}}, 2, 1, {{3, {2, 7, 6}}}, 0},
    {"max_pool", {{"kernel", 2}, {"stride", 2}}, 2, 1, {{3, {3, 5, 4}}}, 0},
    {"max_pool", {{"kernel", 1}, {"stride", 1}}, 1, 1, {{3, {1, 1, 1}}}, 0},
    {"average_pool", {{"kernel", 3}, {"stride", 2}, {"padding", 1}}, 2, 1, {{3, {2, 7, 6}}}, 0},
    {"average_pool", {{"kernel", 2}, {"stride", 3}}, 1, 1, {{3, {1, 5, 6}}}, 0},
    {"global_average_pool", {{0}}, 3, 1, {{3, {4, 3, 5}}}, 0},
    {"global_average_pool", {{0}}, 1, 1, {{3, {1, 1, 1}}}, 0},
};

enum { LAYER_CASE_COUNT = sizeof layer_cases / sizeof layer_cases[0] };

#endif
