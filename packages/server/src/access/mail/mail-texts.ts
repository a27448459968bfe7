// What the messages say: codes for users of a project, and links for people who use the console.
export type UserMessage = Readonly<{
  kind: 'recovery' | 'verification' | 'email_changed';
  /** `accountId`: whose messages must leave capacity for others. */
  project: { slug: string; name: string; accountId: string };
  email: string;
  code: string | null;
  expiresAt: Date | null;
}>;

export type PersonMessage = Readonly<{
  kind:
    | 'member_invitation'
    | 'member_recovery'
    | 'member_email'
    | 'member_password_changed'
    | 'member_email_changed'
    | 'member_second_factor_removed'
    | 'member_second_factor_tried'
    | 'member_passkey_added'
    | 'member_provider_connected'
    | 'member_backups_failing'
    | 'member_backups_stored';
  /** The person who causes it, and whose messages must leave capacity for others. Left out: nobody signed in. */
  sentBy?: string;
  /** The account to which an invitation invites. */
  account: { id: string; name: string } | null;
  email: string;
  /** With a code that works once. */
  link: string | null;
  expiresAt: Date | null;
  /** What happened, in words of the service. */
  text?: string | null;
}>;

export type Message = UserMessage | PersonMessage;

export function mailOf(message: Message): { subject: string; text: string } {
  return 'project' in message ? mailToUser(message) : mailToPerson(message);
}

function mailToUser({ kind, project, email, code, expiresAt }: UserMessage) {
  const name = oneLine(project.name) || project.slug;
  const { subject, why, otherwise } = {
    recovery: {
      subject: `Your recovery code for ${name}`,
      why: `Somebody asked for a new password for ${email} at ${name}.`,
      otherwise: 'If it was not you, give the code to nobody: nothing has changed.',
    },
    verification: {
      subject: `Your verification code for ${name}`,
      why: `This code shows ${name} that ${email} is your address.`,
      otherwise: 'If you do not know what this is about, give the code to nobody: nothing has changed.',
    },
    email_changed: {
      subject: `Your email address at ${name} was changed`,
      why: `The account at ${name} that had the address ${email} has another one now.`,
      otherwise: `If it was not you, tell ${name} at once.`,
    },
  }[kind];
  return {
    subject,
    text: [why, '', ...onceLines(code, expiresAt), otherwise, '', `${name} (${project.slug})`, ''].join('\n'),
  };
}

function mailToPerson({ kind, account, email, link, expiresAt, text }: PersonMessage) {
  const name = oneLine(account?.name ?? '');
  const tell = 'If it was not you, ask for a new password on the sign-in page, and tell the operator.';
  const remove =
    'If it was not you, remove it in your profile in the console: a new password alone does not. Then change your password, and tell the operator.';
  const { subject, why, otherwise } = {
    member_invitation: {
      subject: `Invitation to ${name} on Rowhouse`,
      why: `You are invited to the account ${name} on Rowhouse. Open this link to accept:`,
      otherwise: 'If you do not know what this is about, ignore this message.',
    },
    member_recovery: {
      subject: 'A new password for Rowhouse',
      why: `Somebody asked for a new password for ${email}. Open this link to set it:`,
      otherwise: 'If it was not you, ignore this message: nothing has changed.',
    },
    member_email: {
      subject: 'Confirm your address for Rowhouse',
      why: `Open this link, where you are signed in, to use ${email} from now on:`,
      otherwise: 'If you do not know what this is about, ignore this message: nothing has changed.',
    },
    member_password_changed: {
      subject: 'Your password for Rowhouse was changed',
      why: `The password of ${email} was changed. Its other sessions have ended.`,
      otherwise: tell,
    },
    member_email_changed: {
      subject: 'Your address for Rowhouse was changed',
      why: `Whoever signed in as ${email} uses another address now.`,
      otherwise: 'If it was not you, tell the operator at once.',
    },
    member_second_factor_removed: {
      subject: 'Your second factor for Rowhouse was removed',
      why: `${email} signs in without an authenticator app from now on.`,
      otherwise: tell,
    },
    member_passkey_added: {
      subject: 'A passkey for Rowhouse was added',
      why: `${email} can sign in with a further passkey from now on.`,
      otherwise: remove,
    },
    member_provider_connected: {
      subject: 'A provider for Rowhouse was connected',
      why: `${email} can sign in with a further provider from now on.`,
      otherwise: remove,
    },
    member_backups_failing: {
      subject: 'Rowhouse does not store backups',
      why: text ?? '',
      otherwise: 'You get this message because you operate this installation of Rowhouse.',
    },
    member_backups_stored: {
      subject: 'Rowhouse stores backups again',
      why: 'Everything that was kept meanwhile has been stored, or a new full backup begins now. The service has more: rowhouse backup list.',
      otherwise: 'You get this message because you operate this installation of Rowhouse.',
    },
    member_second_factor_tried: {
      subject: 'Wrong codes for Rowhouse',
      why: `Somebody entered the right password of ${email}, and several wrong codes of the second factor.`,
      otherwise: 'If it was not you, change your password: somebody knows it.',
    },
  }[kind];
  return { subject, text: [why, '', ...onceLines(link, expiresAt), otherwise, ''].join('\n') };
}

function onceLines(secret: string | null, expiresAt: Date | null): string[] {
  const until = expiresAt ? `, until ${expiresAt.toISOString().slice(0, 16).replace('T', ' ')} UTC` : '';
  return secret === null ? [] : [`    ${secret}`, '', `It works once${until}.`, ''];
}

// Strangers choose the names: they must not be able to imitate lines of the message, nor contain an encoded
// word (=?…?=), which mail clients decode in a subject.
function oneLine(text: string): string {
  return text
    .replace(/[\p{C}\p{Z}]+/gu, ' ')
    .replaceAll('=?', '= ?')
    .trim();
}
