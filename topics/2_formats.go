package topics

// Format is the version of State and Progress on topic state. What is read may
// be of any format from Oldest to Newest. What is written is of one that every
// member of the group reads: members say it to each other (engine/formats.go), so
// versions can be mixed, and rolled back as long as one of them is older.
type Format uint64

// Oldest is what every version reads.
const Oldest Format = 1
