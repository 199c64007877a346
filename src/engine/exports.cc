int dynrun_placeholder() { return 0; }
