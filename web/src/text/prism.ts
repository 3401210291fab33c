// The core first: the grammars add themselves to it.
import "./prism-setup";
import "../../vendor/prism/prism-core.min.js";
