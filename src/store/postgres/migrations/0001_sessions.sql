create table unfazed_session (
    id           text collate "C" primary key,
    -- Who writes: new with every opening. Nobody else can while the lease runs.
    holder       text,
    lease_until  timestamptz,
    -- How many records the log has: the place of the next one.
    records      bigint not null,
    bytes        bigint not null,
    updated      timestamptz not null default clock_timestamp(),
    meta_version integer not null,
    title        text not null,
    named        boolean not null default false,
    created      bigint not null,
    agent        text,
    status       text not null,
    model        text,
    runs         bigint not null,
    turns        bigint not null,
    messages     bigint not null,
    tokens       jsonb not null,
    -- The states that were kept last.
    state        bytea,
    state_before bytea
);

create table unfazed_record (
    session text collate "C" not null references unfazed_session (id) on delete cascade,
    seq     bigint not null,
    line    text not null,
    primary key (session, seq)
);

-- What was said, in small letters, to be searched.
create table unfazed_message (
    session text collate "C" not null references unfazed_session (id) on delete cascade,
    seq     bigint not null,
    place   bigint not null,
    folded  text not null,
    primary key (session, seq, place)
);
