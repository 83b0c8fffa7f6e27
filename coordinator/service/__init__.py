"""What the office serves: coordination, enrolment, renewal, dealing."""
