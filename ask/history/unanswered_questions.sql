-- Why the messages after a run's last answer are not sent as they are: "refused" if the provider refused them. Until now,
-- a question without an answer was sent together with the next one. If that was answered, it is still part of the
-- conversation, and "merged" says so.

ALTER TABLE runs ADD COLUMN status TEXT NOT NULL DEFAULT '';
WITH answers AS (
    SELECT run FROM messages WHERE role = 'assistant' AND (
        content <> '' OR provider_state IS NOT NULL OR EXISTS (SELECT 1 FROM calls WHERE message = messages.number)
    )
)
UPDATE runs SET status = 'merged'
WHERE compacts IS NULL
    AND number NOT IN (SELECT run FROM answers)
    AND EXISTS (
        SELECT 1 FROM runs AS later JOIN answers ON run = later.number
        WHERE later.conversation = runs.conversation AND later.number > runs.number AND later.compacts IS NULL
    )
