package auth_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/waterclock/waterclock/gateway/auth"
)

// A key is for one tenant and has a role.
func ExampleReadKeys() {
	keys, err := auth.ReadKeys(strings.NewReader("acme 0123456789abcdef0123456789abcdef support anna\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	r := httptest.NewRequest(http.MethodPost, "/v1/triggers/tea:cancel", http.NoBody)
	r.Header.Set("Authorization", "Bearer 0123456789abcdef0123456789abcdef")
	caller, err := keys.Authenticate(r)
	fmt.Println(caller.Tenant, caller.Name, caller.Role, err)
	fmt.Println("cancel:", caller.May(auth.Act), "register:", caller.May(auth.Write))
	// Output:
	// acme anna support <nil>
	// cancel: true register: false
}
