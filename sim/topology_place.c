/* Where the vertices are in a drawing. */
#include "sim/topology.h"

#include <math.h>

void fabric_place(const struct platform *platform, const struct fabric *fabric,
                  struct box box, struct point *points)
{
    if (fabric->kind->place != NULL)
        fabric->kind->place(platform, fabric, box, points);
    else
        fabric_place_circle(fabric, box, points);
}

static const double turn = 6.283185307179586;

void fabric_place_circle(const struct fabric *fabric, struct box box, struct point *points)
{
    double x = box.x + box.width / 2, y = box.y + box.height / 2;
    size_t switches = fabric->end_switch - fabric->first_switch;
    for (size_t i = 0; i < fabric->count; i++) {
        double angle = turn * ((double)i / (double)fabric->count - 0.25);
        points[fabric->endpoints[i]] = (struct point){x + 0.42 * box.width * cos(angle),
                                                      y + 0.42 * box.height * sin(angle)};
    }
    for (size_t i = 0; i < switches; i++) {
        double angle = turn * ((double)i + 0.5) / (double)switches;
        double radius = switches == 1 ? 0 : 0.15;
        points[fabric->first_switch + i] = (struct point){
            x + radius * box.width * cos(angle), y + radius * box.height * sin(angle)};
    }
}
