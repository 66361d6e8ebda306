/* The processor kinds, one a file. */
#ifndef PODSIM_SIM_PROCESSORS_KINDS_H
#define PODSIM_SIM_PROCESSORS_KINDS_H

#include "sim/processor.h"

extern const struct processor_kind processor_ipu;
extern const struct processor_kind processor_roofline;
extern const struct processor_kind processor_table;

#endif
