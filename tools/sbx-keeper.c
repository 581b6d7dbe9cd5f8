/*
 * sbx-keeper.c - the process that an execution of sbxd lives in.
 *
 * Sees nothing of the project but <sbx/sbx.h>, which has all of it in one function. Has
 * no options: what it is to do comes through descriptors.
 */
#include <sbx/sbx.h>

#include <unistd.h>

int main(int argc, char *argv[])
{
    int status = sbx_keeper_main(argc, argv);
    if (argc < 2) {
        static const char message[] =
            "sbx-keeper: is started by sbxd; see sbxctl start\n";
        ssize_t written = write(STDERR_FILENO, message, sizeof message - 1);
        (void)written;
    }
    return status;
}
