#!/bin/sh
# Today's exchange rate, from a service that is down. The attempt is told by the caller.
echo "rates.example.com: connection refused (attempt ${UNFAZED_ATTEMPT:-1})" >&2
exit 1
