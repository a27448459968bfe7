// Wire types of the audit log.
import Type, { type Static } from 'typebox';
import { success } from './envelope.ts';
import { orNull, time } from './fields.ts';

const text = (description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength: 300, description }));

export const AuditEntry = Type.Object(
  {
    id: Type.String(),
    at: time,
    account: orNull(Type.String(), 'The id of the account that it concerns. null: the installation.'),
    actor: Type.Object(
      {
        kind: Type.Enum(['person', 'key', 'operator', 'nobody'], {
          description: 'nobody: a sign-in that failed.',
        }),
        id: orNull(Type.String(), 'Of the person or the key.'),
        name: orNull(Type.String(), 'The email address of a person, as it was then.'),
      },
      { additionalProperties: false },
    ),
    address: Type.String({ description: 'The IP address of the caller.' }),
    action: Type.String({ examples: ['project.delete', 'member.invite'] }),
    project: orNull(Type.String(), 'Its slug, as it was then.'),
    target: orNull(Type.String(), 'What else it was about, such as the id of a key.'),
    outcome: Type.Enum(['done', 'refused', 'failed']),
    error: orNull(Type.String(), 'The code of the error.'),
    details: orNull(Type.Record(Type.String(), Type.Unknown()), 'Fields of the request. Never a secret.'),
    request_id: Type.String(),
  },
  { additionalProperties: false },
);
export type AuditEntry = Static<typeof AuditEntry>;

export const ListAudit = Type.Object(
  {
    from: Type.Optional(Type.String({ format: 'date-time', maxLength: 40 })),
    to: Type.Optional(Type.String({ format: 'date-time', maxLength: 40 })),
    action: text('An action, such as project.delete, or the part before the dot.'),
    actor: text('The id of a person or a key, or an email address.'),
    project: text('A slug.'),
    account: text("An account's id. For operators: without it, entries of all accounts."),
    outcome: Type.Optional(Type.Enum(['done', 'refused', 'failed'])),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, default: 100 })),
    cursor: text('Of the previous page.'),
  },
  { additionalProperties: false },
);
export type ListAudit = Static<typeof ListAudit>;

export const AuditResponse = success({
  entries: Type.Array(AuditEntry),
  cursor: orNull(Type.String(), 'For the next page. null: this is the last one.'),
});
export type AuditResponse = Static<typeof AuditResponse>;
