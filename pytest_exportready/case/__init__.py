"""What a user declares and what comes of it: ExportCase, options, Scenario, Finding, Readiness."""
