// A vitest reporter for the run of everything: writes down which files failed, so that they can run a second time. An error
// outside of the tests counts for the file that ran; `hasOtherErrors` means that none did.
import { writeFileSync } from 'node:fs';
import path from 'node:path';

export default class FailedFiles {
  onTestRunEnd(modules, unhandledErrors) {
    const failed = modules.filter((module) => !module.ok());
    const tests = failed.flatMap((module) => [...module.children.allTests('failed')]);
    const names = tests.map((test) => `${test.module.relativeModuleId} > ${test.fullName}`);
    const sources = unhandledErrors.map((error) => error.VITEST_TEST_PATH);
    const outside = sources.filter(Boolean).map((file) => path.relative(process.cwd(), file));
    const files = [...new Set([...failed.map((module) => module.relativeModuleId), ...outside])];
    const found = {
      files,
      names: [...names, ...outside.map((file) => `${file} (outside of its tests)`)],
      hasOtherErrors: sources.some((source) => !source),
    };
    writeFileSync(process.env.FAILED_FILES_REPORT, JSON.stringify(found));
  }
}
