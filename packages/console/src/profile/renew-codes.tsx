// New recovery codes in place of the old ones.
import type { ConsoleRecoveryCodesResponse } from '@rowhouse/api';
import { sessionRequest } from '../api/request.ts';
import { useShownOnce } from '../session/shown-once.tsx';
import { ProveFactor } from './prove-factor.tsx';
import { RecoveryCodes } from './recovery-codes.tsx';

type Props = { email: string; onDone: () => unknown; onClose: () => void };

export function RenewCodes({ email, onDone, onClose }: Props) {
  const shownOnce = useShownOnce(onClose);
  return (
    <ProveFactor
      title="New recovery codes"
      action="Make new codes"
      email={email}
      onClose={onClose}
      onProve={async (proof) => {
        const url = 'person/second-factor/recovery-codes';
        await shownOnce(
          () => sessionRequest<ConsoleRecoveryCodesResponse>('POST', url, proof),
          ({ recovery_codes: codes }, close) => <RecoveryCodes codes={codes} onClose={close} />,
        );
        await onDone();
      }}
    >
      The old recovery codes no longer work.
    </ProveFactor>
  );
}
