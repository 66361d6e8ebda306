#include "command/command.h"

#include "base/checked.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct command *const commands[] = {
    &command_compare, &command_run, &command_validate, &command_platform, &command_model,
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

enum { KEY_JSON = 256, KEY_COST_ONLY, KEY_SET, KEY_SEED, KEY_XML, KEY_SVG, KEY_METHOD };

static const struct argp_option argp_options[] = {
    {"set", KEY_SET, "KEY=VALUE", 0,
     "Set a key of the experiment, by its dotted path (methods.pipeline.stages=2)", 0},
    {"method", KEY_METHOD, "NAME", 0, "run: the method to run, of several", 0},
    {"output", 'o', "DIR", 0, "Write summary.json and the traces into this folder", 0},
    {"json", KEY_JSON, NULL, 0, "Print the summary as JSON instead of a table", 0},
    {"cost-only", KEY_COST_ONLY, NULL, 0, "Simulate time, bytes and memory; train nothing", 0},
    {"seed", KEY_SEED, "N", 0, "Seed of weights and sample order", 0},
    {"jobs", 'j', "N", 0, "Simulations side by side (default: one a core)", 0},
    {"quiet", 'q', NULL, 0, "No progress on standard error", 0},
    {"xml", KEY_XML, NULL, 0, "platform: print SimGrid's platform file", 0},
    {"svg", KEY_SVG, "FILE", 0, "platform: draw the machine", 0},
    {0},
};

static bool read_count(const char *text, uint64_t *value)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    *value = number;
    return errno == 0 && end != text && *end == '\0' && text[0] != '-' &&
           number <= UINT64_C(1) << 53;
}

static const struct {
    int key;
    enum option_bit bit;
    const char *name;
} option_bits[] = {
    {KEY_SET, OPTION_SET, "--set"},
    {'o', OPTION_OUTPUT, "--output"},
    {KEY_JSON, OPTION_JSON, "--json"},
    {KEY_COST_ONLY, OPTION_COST_ONLY, "--cost-only"},
    {KEY_SEED, OPTION_SEED, "--seed"},
    {'j', OPTION_JOBS, "--jobs"},
    {'q', OPTION_QUIET, "--quiet"},
    {KEY_XML, OPTION_XML, "--xml"},
    {KEY_SVG, OPTION_SVG, "--svg"},
    {KEY_METHOD, OPTION_METHOD, "--method"},
};
enum { OPTION_BITS = sizeof option_bits / sizeof option_bits[0] };

static void note_given(struct options *options, int key)
{
    for (size_t i = 0; i < OPTION_BITS; i++)
        if (option_bits[i].key == key)
            options->given |= option_bits[i].bit;
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    struct options *options = state->input;
    note_given(options, key);
    switch (key) {
    case KEY_SET:
        if (strchr(argument, '=') == NULL)
            argp_error(state, "--set %s: must be KEY=VALUE", argument);
        if (!checked_grow((void **)&options->sets, &options->set_capacity,
                          options->set_count + 1, sizeof *options->sets))
            return ENOMEM;
        options->sets[options->set_count++] = argument;
        break;
    case 'o':
        if (argument[0] == '\0')
            argp_error(state, "--output: must name a folder");
        options->directory = argument;
        break;
    case 'j':
        if (!read_count(argument, &options->jobs) || options->jobs == 0)
            argp_error(state, "--jobs %s: must be a number from 1", argument);
        break;
    case KEY_SEED:
        if (!read_count(argument, &options->seed))
            argp_error(state, "--seed %s: must be a number from 0 to 2^53", argument);
        break;
    case KEY_JSON:
        options->json = true;
        break;
    case KEY_COST_ONLY:
        options->cost_only = true;
        break;
    case 'q':
        options->quiet = true;
        break;
    case KEY_XML:
        options->xml = true;
        break;
    case KEY_SVG:
        options->svg = argument;
        break;
    case KEY_METHOD:
        options->method = argument;
        break;
    case ARGP_KEY_ARGS:
        options->arguments = state->argv + state->next;
        options->argument_count = (size_t)(state->argc - state->next);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static char *add_commands(int key, const char *text, void *input)
{
    (void)input;
    char *whole = NULL;
    size_t bytes = 0;
    if (key != ARGP_KEY_HELP_PRE_DOC)
        return (char *)(uintptr_t)text;
    FILE *out = open_memstream(&whole, &bytes);
    if (out == NULL)
        return (char *)(uintptr_t)text;
    fprintf(out, "Simulates machines of many accelerators, and really trains on them.\n\n"
                 "Commands:\n");
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-9s %-18s %s\n", commands[i]->name, commands[i]->arguments,
                commands[i]->summary);
    fclose(out);
    return whole;
}

const char *argp_program_version = "podsim " PODSIM_VERSION;

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static int run_command(const struct command *command, const struct options *options)
{
    struct error error = {STATUS_OK, ""};
    if (options->argument_count < command->min_arguments ||
        options->argument_count > command->max_arguments) {
        fprintf(stderr, "podsim %s takes: %s\n", command->name, command->arguments);
        return STATUS_BAD_INPUT;
    }
    for (size_t i = 0; i < OPTION_BITS; i++)
        if ((options->given & option_bits[i].bit & ~command->uses) != 0) {
            fprintf(stderr, "podsim: %s has no effect on \"podsim %s\"\n", option_bits[i].name,
                    command->name);
            return STATUS_BAD_INPUT;
        }
    enum status status = command->run(options, &error);
    if (error.message[0] != '\0')
        fprintf(stderr, "podsim: %s\n", error.message);
    bool written = fflush(stdout) == 0 && !ferror(stdout); /* an earlier write may have failed */
    if (!written && status == STATUS_OK) {
        fprintf(stderr, "podsim: standard output cannot be written\n");
        status = STATUS_HOST;
    }
    return (int)status;
}

/* An installed program, PREFIX/bin/podsim, has its machines and experiments in
 * PREFIX/share/podsim; one that was only built has them where its source is. */
static void find_data(void)
{
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    static const char program[] = "/bin/podsim", data[] = "/share/podsim";
    if (length < (ssize_t)strlen(program) || (size_t)length + sizeof data > sizeof path)
        return;
    char *end = path + length - strlen(program);
    if (strncmp(end, program, strlen(program)) != 0)
        return;
    memcpy(end, data, sizeof data);
    if (access(path, R_OK) == 0)
        setenv("PODSIM_DATA", path, 0);
}

int main(int argc, char **argv)
{
    find_data();
    struct options options = {0};
    const struct argp argp = {argp_options, parse_option, "COMMAND [FILE...]", "", NULL,
                              add_commands, NULL};
    argp_err_exit_status = STATUS_BAD_INPUT;
    if (argp_parse(&argp, argc, argv, 0, NULL, &options) != 0)
        return STATUS_HOST;
    if (options.argument_count == 0) {
        argp_help(&argp, stderr, ARGP_HELP_STD_USAGE | ARGP_HELP_PRE_DOC, argv[0]);
        return STATUS_BAD_INPUT;
    }
    const struct command *command = find_command(options.arguments[0]);
    if (command == NULL) {
        fprintf(stderr, "podsim: there is no command \"%s\"; see podsim --help\n",
                options.arguments[0]);
        return STATUS_BAD_INPUT;
    }
    options.arguments++;
    options.argument_count--;
    int status = run_command(command, &options);
    free(options.sets);
    return status;
}
