package decompress

// First returns the value and the number of headers of the first record of a batch, given
// its records as they are before compression. ok is false if there is no whole record.
func First(records []byte) (value []byte, headers int64, ok bool) {
	rec, _, ok := cutBytes(records)
	if !ok || len(rec) < 1 {
		return nil, 0, false
	}
	rec = rec[1:] // attributes
	for range 2 { // time and offset
		if _, rec, ok = cutVarint(rec); !ok {
			return nil, 0, false
		}
	}
	if _, rec, ok = cutBytes(rec); !ok { // key
		return nil, 0, false
	}
	if value, rec, ok = cutBytes(rec); !ok {
		return nil, 0, false
	}
	headers, _, ok = cutVarint(rec)
	return value, headers, ok
}
