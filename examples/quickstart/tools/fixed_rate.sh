#!/bin/sh
# The house's own exchange rates. Arguments come as JSON on standard input: {"currency":"USD"}
currency=$(sed -n 's/.*"currency" *: *"\([A-Z][A-Z][A-Z]\)".*/\1/p')
rate=$(sed -n "s/^$currency //p" tools/fixed_rates.txt)
if [ -z "$currency" ] || [ -z "$rate" ]; then
    echo "there is no fixed rate for that currency; there are: $(sed -n 's/^\([A-Z]*\) .*/\1/p' tools/fixed_rates.txt | tr '\n' ' ')" >&2
    exit 1
fi
echo "{\"currency\": \"$currency\", \"euros\": $rate}"
