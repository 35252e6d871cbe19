package analytics

import (
	"fmt"
	"math/bits"
	"reflect"
	"strings"
	"unsafe"
)

// parquet-go (v0.32.0, its issue 154) writes some nulls of optional columns as "" or 0. It takes up to 64 rows at a
// time. If the last n values in a column, one behind the other, begin at row n, it takes all nulls behind them for
// values:
//
//	row  0 1 2 3 4 5 ...            row  0 1 2 3 4 5 ...
//	     . . x x . . ... wrong           . . x x x . ... right
//
// So rows are written in pieces in which that does not happen.

// rowsPerPiece is what parquet-go takes at a time.
const rowsPerPiece = 64

// nullable is a field that is null where it is zero: what says so is in 8 or 4 bytes.
type nullable struct {
	at   uintptr
	wide bool
}

// nullables are the fields of a row that are null where they are zero. Pointers are not among them: parquet-go
// writes them one by one.
func nullables(row reflect.Type) (all []nullable) {
	const word = unsafe.Sizeof(uintptr(0))
	for f := range row.Fields() {
		if _, options, _ := strings.Cut(f.Tag.Get("parquet"), ","); !strings.Contains(options, "optional") {
			continue
		}
		switch f.Type.Kind() {
		case reflect.Pointer:
		case reflect.String: // its length
			all = append(all, nullable{f.Offset + word, word == 8})
		case reflect.Map: // a pointer
			all = append(all, nullable{f.Offset, word == 8})
		case reflect.Int64:
			all = append(all, nullable{f.Offset, true})
		case reflect.Int32:
			all = append(all, nullable{f.Offset, false})
		default:
			panic(fmt.Sprintf("column %s of a type that has no nulls here", f.Name))
		}
	}
	return all
}

// pieces cuts rows where nulls of a field would be lost.
type pieces[T any] struct {
	fields []nullable
	words  []uint64 // of each field: which rows are not null
}

func newPieces[T any]() *pieces[T] {
	fields := nullables(reflect.TypeFor[T]())
	return &pieces[T]{fields, make([]uint64, len(fields))}
}

// next says how many of the rows, from the first on, can be written at once: at least one, at most rowsPerPiece.
func (p *pieces[T]) next(rows []T) int {
	rows = rows[:min(len(rows), rowsPerPiece)]
	for i, f := range p.fields {
		word := uint64(0)
		for n := range rows {
			field := unsafe.Add(unsafe.Pointer(&rows[n]), f.at)
			if f.wide && *(*uint64)(field) != 0 || !f.wide && *(*uint32)(field) != 0 {
				word |= 1 << n
			}
		}
		p.words[i] = word
	}
	for n := len(rows); ; {
		at := n
		for _, word := range p.words {
			at = min(at, wrongFrom(word, at))
		}
		if at == n {
			return n
		}
		n = at // what was right in a longer piece may not be in a shorter one
	}
}

// wrongFrom is the first of n rows that is null and would not be written as null. It is n if there is none.
func wrongFrom(word uint64, n int) int {
	word &= ^uint64(0) >> (rowsPerPiece - n)
	end := bits.Len64(word) // behind the last bits
	if end == 0 || end == n {
		return n
	}
	count := bits.LeadingZeros64(^(word << (64 - end))) // so many they are
	if begin := end - count; begin == count {
		return end
	}
	return n
}
