package calendar

import (
	"archive/zip"
	"bytes"
	"fmt"
)

// CarryOver is the release in blob, and in it the zones of old that it lacks,
// with the rules they have there: what is planned in one of them can be planned
// on. names says which they are; without any the blob stays as it is. The same
// releases give the same bytes.
func CarryOver(blob []byte, old *Zones) (whole []byte, names []string, err error) {
	next, err := index(blob, "")
	if err != nil {
		return nil, nil, fmt.Errorf("carry over: %w", err)
	}
	for _, name := range old.names {
		if _, ok := next.raw[name]; !ok {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return blob, nil, nil
	}
	if whole, err = withZones(blob, old, names); err != nil {
		return nil, nil, fmt.Errorf("carry over: %w", err)
	}
	return whole, names, nil
}

func withZones(blob []byte, from *Zones, names []string) ([]byte, error) {
	in, err := zip.NewReader(bytes.NewReader(blob), int64(len(blob)))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range in.File {
		if err := w.Copy(f); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		entry, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err == nil {
			_, err = entry.Write(from.raw[name])
		}
		if err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return out.Bytes(), err
}
