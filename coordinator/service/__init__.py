"""Services of the office: coordination, enrolment, renewal, dealing."""
