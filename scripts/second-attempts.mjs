// A vitest reporter for the run of everything: names the tests that passed only at their second attempt, so that a retry
// hides none of them.
export default class SecondAttempts {
  onTestRunEnd(modules) {
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const flaky = tests.filter((test) => test.diagnostic()?.flaky);
    if (flaky.length === 0) return;
    console.log(`\n${flaky.length} passed only at the second attempt:`);
    for (const test of flaky) console.log(`  ${test.module.relativeModuleId} > ${test.fullName}`);
  }
}
