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
    {"cross_attention", {{"heads", 3}}, 2, 2, {{2, {5, 6}}, {2, {3, 4}}}, 0},
    {"cross_attention", {{"heads", 1}, {"bias", 0}}, 3, 2, {{2, {1, 5}}, {2, {7, 5}}}, 0},
    {"cross_attention", {{"heads", 2}}, 1, 2, {{2, {18, 2}}, {2, {1, 1}}}, 0},
};

enum { LAYER_CASE_COUNT = sizeof layer_cases / sizeof layer_cases[0] };

#endif
