void run(void **args)
{
    const unsigned char *restrict text = args[0], *restrict pattern = args[1];
    unsigned *restrict found = args[2];
    int length = *(int *)args[3], pattern_length = *(int *)args[4];

    for (int i = 0; i < length; ++i) {
        int matched = 0;
        while (matched < pattern_length && text[i + matched] == pattern[matched])
            ++matched;
        found[i] = matched == pattern_length;
    }
}
