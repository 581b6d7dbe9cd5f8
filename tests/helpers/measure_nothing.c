/*
 * measure_nothing - exits 0: a static `true`, so that what is measured around it is the
 * launcher's.
 */
int main(void)
{
    return 0;
}
