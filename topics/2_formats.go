package topics

// Format is the version of State and Progress on topic state. What is read may
// be of any format from Oldest to Newest. What is written is of one that every
// member of the group reads: members say it to each other (engine/formats.go), so
// versions can be mixed, and rolled back as long as one of them is older.
type Format uint64

// Oldest is what every version reads.
const Oldest Format = 1

// Redrives is the first format that has what redrives and postponements need
// (schemas/waterclock/v1/state.proto). In an older one a restart forgets how often an
// occurrence was postponed, and what was redriven.
const Redrives Format = 2
