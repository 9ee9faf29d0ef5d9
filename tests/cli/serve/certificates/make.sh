#!/bin/sh
# Makes the certificates of the tests of TLS. None of their keys protects anything.
set -eu
cd "$(dirname "$0")"
new() { # NAME START END
    openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt -out "$1.key"
    openssl req -new -key "$1.key" -subj "/CN=$1" -out "$work/$1.csr"
    openssl ca -batch -notext -selfsign -config "$work/ca.cnf" -keyfile "$1.key" -in "$work/$1.csr" \
        -startdate "$2" -enddate "$3" -out "$1.pem" 2>/dev/null
}
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
: > "$work/index.txt"
cat > "$work/ca.cnf" <<END
[ca]
default_ca = own
[own]
new_certs_dir = $work
database = $work/index.txt
rand_serial = yes
default_md = sha256
policy = any
x509_extensions = server
[any]
commonName = supplied
[server]
basicConstraints = critical, CA:FALSE
extendedKeyUsage = serverAuth
subjectAltName = DNS:localhost, IP:127.0.0.1
END
new first 20200101000000Z 21200101000000Z
new second 20200101000000Z 21200101000000Z
new expired 20190101000000Z 20200101000000Z
