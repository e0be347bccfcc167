kernel void string_search(global const uchar *text, global const uchar *pattern, global uint *found, int length,
                          int pattern_length)
{
    for (int i = get_global_id(0); i < length; i += get_global_size(0)) {
        int matched = 0;
        while (matched < pattern_length && text[i + matched] == pattern[matched])
            ++matched;
        found[i] = matched == pattern_length;
    }
}
