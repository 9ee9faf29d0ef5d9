-- What hosts share by scope: each change is one version more.
create table unfazed_shared (
    scope   text collate "C" primary key,
    version bigint not null,
    value   text not null,
    updated timestamptz not null default clock_timestamp()
);
