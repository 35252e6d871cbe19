package schemas_test

import (
	"bytes"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/waterclock/waterclock/schemas"
)

// A producer checks a command before it writes it.
func ExampleFS() {
	text, err := schemas.FS.ReadFile("command.schema.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		fmt.Println(err)
		return
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("command.schema.json", document); err != nil {
		fmt.Println(err)
		return
	}
	command := compiler.MustCompile("command.schema.json")
	for _, text := range []string{`{"op":"register","delay":"7m"}`, `{"op":"register","dealy":"7m"}`} {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(text)))
		fmt.Println(text, "fits:", err == nil && command.Validate(value) == nil)
	}
	// Output:
	// {"op":"register","delay":"7m"} fits: true
	// {"op":"register","dealy":"7m"} fits: false
}
