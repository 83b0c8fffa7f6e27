-- One row a patient out of an OMOP common data model (5.3 or 5.4) in the schema cdm, for a hospital's node on PostgreSQL:
--
--     psql --single-transaction --file omop_view.sql warehouse
--
-- Codes are those of the OMOP vocabulary. A copy of this file says what the hospital's columns mean: keep it with the study.
-- Two rules make a view fit for it. Each row follows from records of its own patient alone: no ranks, means or quantiles
-- over patients, or one patient changes many rows. And nothing in it changes by itself: a fixed day, never now().

CREATE SCHEMA dprelease;

CREATE VIEW dprelease.patients AS
WITH
day AS (SELECT DATE '2026-01-01' AS first_not_counted),
latest AS ( -- of each patient and kind the latest value in the unit that is declared; of one day's, the one that came last
    SELECT DISTINCT ON (person_id, measurement_concept_id) person_id, measurement_concept_id, value_as_number
    FROM cdm.measurement, day
    WHERE (measurement_concept_id, unit_concept_id) IN (
        (3004249, 8876), -- systolic blood pressure, mmHg
        (3038553, 9531)  -- body mass index, kg/m2
    )
    AND value_as_number IS NOT NULL
    AND measurement_date < first_not_counted
    ORDER BY person_id, measurement_concept_id, measurement_date DESC, measurement_id DESC
),
diabetic AS ( -- type 2 diabetes, and every condition below it
    SELECT DISTINCT person_id
    FROM cdm.condition_occurrence
    CROSS JOIN day
    JOIN cdm.concept_ancestor ON descendant_concept_id = condition_concept_id
    WHERE ancestor_concept_id = 201826 AND condition_start_date < first_not_counted
)
SELECT
    person.person_source_value AS patient_id, -- the identifier that the hospitals share, not person_id
    2026 - person.year_of_birth AS age,
    CASE person.gender_concept_id WHEN 8532 THEN 'female' WHEN 8507 THEN 'male' END AS sex,
    pressure.value_as_number AS systolic,
    mass.value_as_number AS bmi,
    CASE WHEN diabetic.person_id IS NULL THEN 'no' ELSE 'yes' END AS diabetes
FROM cdm.person
LEFT JOIN latest AS pressure ON pressure.person_id = person.person_id AND pressure.measurement_concept_id = 3004249
LEFT JOIN latest AS mass ON mass.person_id = person.person_id AND mass.measurement_concept_id = 3038553
LEFT JOIN diabetic ON diabetic.person_id = person.person_id
WHERE person.year_of_birth < 2008; -- adults

-- The node's own user sees this view and nothing else. Its password: \password dprelease_node
CREATE ROLE dprelease_node LOGIN CONNECTION LIMIT 4;
GRANT USAGE ON SCHEMA dprelease TO dprelease_node;
GRANT SELECT ON dprelease.patients TO dprelease_node;
